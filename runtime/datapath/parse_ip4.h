/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* parse_ip4.h - parses the IPv4 header, and walks its options.
 * Fills addresses, protocol, l4, end and the fragment fields.
 */
#pragma once
#include "drops.h"
#include "flow.h"
#include "packet.h"
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>

#define PC_IP4_MORE   0x2000
#define PC_IP4_OFFSET 0x1fff

#define PC_IP4_OPTIONS 40 /* bytes of options; an option has at least one */
#define PC_IP4_END     0
#define PC_IP4_NOTHING 1
#define PC_IP4_LOOSE   131
#define PC_IP4_STRICT  137

static __always_inline enum drop_reason pc_fragment4(struct pc_flow *flow, const struct iphdr *ip)
{
	__u16 word = bpf_ntohs(ip->frag_off);
	__u16 offset = word & PC_IP4_OFFSET;

	if (!offset && !(word & PC_IP4_MORE))
		return PC_PASS;
	flow->packet.fragment = offset ? PC_FRAG_LATER : PC_FRAG_FIRST;
	flow->packet.frag_id = ip->id;
	flow->packet.frag_proto = ip->protocol;
	return pc_is_laid_over(ip->protocol, offset * 8) ? PC_DROP_MALFORMED : PC_PASS;
}

/* With a source route the destination in the header is a waypoint: the policy would decide about
 * the wrong end, and a router that honours the option would send the packet on to a denied one.
 * Routers drop options that exceed the header. Verified once, on its own: in the caller the bounds
 * of `end` would make the verifier's work thirty times as long.
 */
__noinline int pc_walk_options(struct __sk_buff *skb, __u32 end)
{
	__u32 at = ETH_HLEN + sizeof(struct iphdr);
	__u8 kind, length;

	for (int i = 0; i < PC_IP4_OPTIONS; i++) {
		if (at >= end)
			return PC_PASS;
		if (bpf_skb_load_bytes(skb, at, &kind, 1))
			return PC_DROP_MALFORMED;
		if (kind == PC_IP4_END)
			return PC_PASS;
		if (kind == PC_IP4_LOOSE || kind == PC_IP4_STRICT)
			return PC_DROP_SOURCE_ROUTE;
		if (kind == PC_IP4_NOTHING) {
			at++;
			continue;
		}
		if (bpf_skb_load_bytes(skb, at + 1, &length, 1) || length < 2)
			return PC_DROP_MALFORMED;
		at += length;
		if (at > end)
			return PC_DROP_MALFORMED;
	}
	return PC_PASS;
}

/* The kernel leaves tot_len 0 in a packet larger than the field holds (IPv4 BIG TCP). */
static __always_inline enum drop_reason pc_parse_ip4(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct iphdr ip;
	enum drop_reason reason;
	__u32 header, total;

	if (!pc_read(skb, ETH_HLEN, &ip, sizeof(ip)))
		return PC_DROP_MALFORMED;
	header = ip.ihl * 4;
	total = bpf_ntohs(ip.tot_len);
	if (!total && skb->gso_size)
		total = skb->len - ETH_HLEN;
	if (ip.version != 4 || header < sizeof(ip) || total < header || ETH_HLEN + total > skb->len)
		return PC_DROP_MALFORMED;
	flow->tuple.family = PC_IPV4;
	flow->tuple.proto = ip.protocol;
	flow->tuple.saddr.word[0] = ip.saddr;
	flow->tuple.daddr.word[0] = ip.daddr;
	flow->packet.hop_limit = ip.ttl;
	flow->packet.l4 = ETH_HLEN + header;
	flow->packet.ip_end = ETH_HLEN + total;
	reason = header > sizeof(ip) ? pc_walk_options(skb, flow->packet.l4) : PC_PASS;
	return reason ? reason : pc_fragment4(flow, &ip);
}
