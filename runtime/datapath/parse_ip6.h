/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* parse_ip6.h - parses the IPv6 header, and walks its extension headers within a bound.
 * Fills addresses, protocol, l4, end and the fragment fields. AH, ESP and "no next header" count as
 * protocols like any other: the datapath does not read their contents.
 */
#pragma once
#include "drops.h"
#include "flow.h"
#include "packet.h"
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ipv6.h>

#define PC_EXT_HEADERS 6
#define PC_IP6_OFFSET  0xfff8
#define PC_IP6_MORE    0x0001

/* The start of every extension header, and the whole fragment header. */
struct pc_ext {
	__u8 next;
	__u8 length;
	union {
		struct {
			__u8 routing_type;
			__u8 segments_left;
		};
		__be16 offset;
	};
	__be32 id;
};
_Static_assert(sizeof(struct pc_ext) == 8, "an extension header has at least eight bytes");

/* An "atomic" fragment is the first and the last at once: a whole packet. */
static __always_inline enum drop_reason pc_fragment6(struct pc_flow *flow, const struct pc_ext *ext)
{
	__u16 word = bpf_ntohs(ext->offset);
	__u16 offset = word & PC_IP6_OFFSET;

	if (flow->packet.fragment)
		return PC_DROP_MALFORMED;
	if (!offset && !(word & PC_IP6_MORE))
		return PC_PASS;
	flow->packet.fragment = offset ? PC_FRAG_LATER : PC_FRAG_FIRST;
	flow->packet.frag_id = ext->id;
	flow->packet.frag_proto = ext->next;
	return pc_is_laid_over(ext->next, offset) ? PC_DROP_MALFORMED : PC_PASS;
}

static __always_inline bool pc_is_ext(__u8 next)
{
	return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_DSTOPTS ||
	       next == IPPROTO_FRAGMENT;
}

/* With segments left, the destination in the header is a waypoint: the policy would decide about
 * the wrong end.
 */
static __always_inline enum drop_reason pc_walk_ext(struct __sk_buff *skb, struct pc_flow *flow,
						    __u8 next)
{
	enum drop_reason reason;
	struct pc_ext ext;
	__u32 at = flow->packet.l4;

	for (int i = 0; i < PC_EXT_HEADERS; i++) {
		if (!pc_is_ext(next) || flow->packet.fragment == PC_FRAG_LATER)
			break;
		if (at + sizeof(ext) > flow->packet.ip_end ||
		    bpf_skb_load_bytes(skb, at, &ext, sizeof(ext)))
			return PC_DROP_MALFORMED;
		if (next == IPPROTO_ROUTING && ext.segments_left)
			return PC_DROP_EXT_HEADERS;
		if (next == IPPROTO_FRAGMENT) {
			reason = pc_fragment6(flow, &ext);
			if (reason)
				return reason;
			at += sizeof(ext);
		} else {
			at += (ext.length + 1) * 8;
		}
		next = ext.next;
	}
	if (pc_is_ext(next) && flow->packet.fragment != PC_FRAG_LATER)
		return PC_DROP_EXT_HEADERS;
	if (at > flow->packet.ip_end)
		return PC_DROP_MALFORMED;
	flow->tuple.proto = next;
	flow->packet.l4 = at;
	return PC_PASS;
}

/* A payload length of 0 is a jumbogram: the kernel builds large GSO packets that way. */
static __always_inline enum drop_reason pc_parse_ip6(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct ipv6hdr ip;
	__u32 payload;

	if (!pc_read(skb, ETH_HLEN, &ip, sizeof(ip)))
		return PC_DROP_MALFORMED;
	payload = bpf_ntohs(ip.payload_len);
	if (!payload && skb->gso_size)
		payload = skb->len - ETH_HLEN - sizeof(ip);
	if (ip.version != 6 || ETH_HLEN + sizeof(ip) + payload > skb->len)
		return PC_DROP_MALFORMED;
	flow->tuple.family = PC_IPV6;
	__builtin_memcpy(&flow->tuple.saddr, &ip.saddr, sizeof(flow->tuple.saddr));
	__builtin_memcpy(&flow->tuple.daddr, &ip.daddr, sizeof(flow->tuple.daddr));
	flow->packet.hop_limit = ip.hop_limit;
	flow->packet.l4 = ETH_HLEN + sizeof(ip);
	flow->packet.ip_end = ETH_HLEN + sizeof(ip) + payload;
	return pc_walk_ext(skb, flow, ip.nexthdr);
}
