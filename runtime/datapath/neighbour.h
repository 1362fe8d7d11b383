/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* neighbour.h - IPv6 neighbour discovery (ND) and multicast listener discovery (MLD).
 * On the link these pass under any policy (semantics A26), if the pod speaks for itself only: its
 * link-layer address, and its own address in an advertisement or duplicate address detection. A
 * message that would be forwarded is ordinary ICMPv6.
 */
#pragma once
#include "sender.h"
#include <linux/ipv6.h>

#define PC_MLD_QUERY         130
#define PC_MLD_DONE          132
#define PC_ND_ROUTER_SOLICIT 133
#define PC_ND_ROUTER_ADVERT  134
#define PC_ND_SOLICIT        135
#define PC_ND_ADVERT         136
#define PC_ND_REDIRECT       137
#define PC_MLD2_REPORT       143

#define PC_AF_INET6 10 /* <sys/socket.h> would pull in the C library */

#define PC_ND_SOURCE_LINK 1
#define PC_ND_TARGET_LINK 2
#define PC_ND_OPTIONS     8
#define PC_ND_TARGET_AT   8
#define PC_ND_BARE        32 /* bytes: a target, and one link-layer address */

static __always_inline bool pc_is_icmp6(const struct pc_flow *flow)
{
	return flow->tuple.family == PC_IPV6 && flow->tuple.proto == IPPROTO_ICMPV6;
}

static __always_inline bool pc_is_nd(const struct pc_flow *flow)
{
	__u8 type = flow->packet.icmp >> 8;

	/* A routed packet no longer has the full hop limit. */
	return pc_is_icmp6(flow) && type >= PC_ND_ROUTER_SOLICIT && type <= PC_ND_REDIRECT &&
	       flow->packet.hop_limit == 255;
}

static __always_inline bool pc_is_mld(const struct pc_flow *flow)
{
	__u8 type = flow->packet.icmp >> 8;

	return pc_is_icmp6(flow) &&
	       ((type >= PC_MLD_QUERY && type <= PC_MLD_DONE) || type == PC_MLD2_REPORT) &&
	       flow->packet.hop_limit == 1;
}

/* A pod is no router. Neighbours that believed it would use it as gateway, or the node would send
 * it packets for other pods.
 */
static __always_inline bool pc_is_router_speech(const struct pc_flow *flow)
{
	__u8 type = flow->packet.icmp >> 8;

	return pc_is_icmp6(flow) && (type == PC_ND_ROUTER_ADVERT || type == PC_ND_REDIRECT);
}

/* The destination address alone proves that the receiver is a neighbour. */
static __always_inline bool pc_nd_stays_on_link(const struct pc_flow *flow)
{
	return pc_addr_is_link_local(&flow->tuple.daddr) ||
	       pc_addr_is_link_group(&flow->tuple.daddr);
}

/* A solicitation or advertisement with at most one link-layer address, which pc_nd_options()
 * checks: it has no room for other data. Slaves also send these to global addresses of their link.
 */
static __always_inline bool pc_nd_is_bare(const struct pc_flow *flow)
{
	__u8 type = flow->packet.icmp >> 8;

	return (type == PC_ND_SOLICIT || type == PC_ND_ADVERT) &&
	       !pc_addr6_is_group(&flow->tuple.daddr) &&
	       flow->packet.ip_end - flow->packet.l4 <= PC_ND_BARE;
}

/* From a pod: the same, or to the node itself, whose other addresses pods probe and answer too. A
 * message that the node would forward is no discovery: its options could carry any data anywhere.
 */
static __always_inline bool pc_nd_ends_here(struct __sk_buff *skb, const struct pc_flow *flow)
{
	struct bpf_fib_lookup fib = {
	    .family = PC_AF_INET6,
	    .l4_protocol = IPPROTO_ICMPV6,
	    .ifindex = skb->ifindex,
	};

	if (pc_nd_stays_on_link(flow))
		return true;
	if (pc_is_at_slave(flow))
		return pc_nd_is_bare(flow);
	if (pc_addr6_is_group(&flow->tuple.daddr))
		return false; /* the lookup says that it is not forwarded */
	__builtin_memcpy(fib.ipv6_src, &flow->tuple.saddr, sizeof(fib.ipv6_src));
	__builtin_memcpy(fib.ipv6_dst, &flow->tuple.daddr, sizeof(fib.ipv6_dst));
	return bpf_fib_lookup(skb, &fib, sizeof(fib), 0) == BPF_FIB_LKUP_RET_NOT_FWDED;
}

/* From a pod. */
static __always_inline bool pc_is_said_to_link(struct __sk_buff *skb, const struct pc_flow *flow)
{
	if (pc_is_mld(flow))
		return pc_addr_is_link_group(&flow->tuple.daddr);
	return pc_is_nd(flow) && pc_nd_ends_here(skb, flow);
}

/* To a pod, and not from the node. The sender of an MLD report must be link-local: any other may be
 * routed from afar, with exactly enough hops.
 */
static __always_inline bool pc_is_heard_on_link(const struct pc_flow *flow)
{
	if (pc_is_mld(flow))
		return pc_addr_is_link_local(&flow->tuple.saddr) &&
		       pc_addr_is_link_group(&flow->tuple.daddr);
	return pc_is_nd(flow) && pc_nd_stays_on_link(flow);
}

/* Offset of the message's options, from its start. */
static __always_inline __u32 pc_nd_options_at(__u8 type)
{
	switch (type) {
	case PC_ND_ROUTER_SOLICIT:
		return 8;
	case PC_ND_ROUTER_ADVERT:
		return 16;
	case PC_ND_REDIRECT:
		return 40;
	default:
		return 24;
	}
}

/* Every link-layer address in the options is the pod's own. */
static __always_inline enum drop_reason
pc_nd_options(struct __sk_buff *skb, const struct pc_flow *flow, const struct pc_endpoint *pod)
{
	__u32 at = flow->packet.l4 + pc_nd_options_at(flow->packet.icmp >> 8);
	struct {
		__u8 type, length;
		__u8 mac[PC_MAC_LEN];
	} option;

	if (at > flow->packet.ip_end)
		return PC_DROP_MALFORMED;
	for (int i = 0; i < PC_ND_OPTIONS; i++) {
		if (at == flow->packet.ip_end)
			return PC_PASS;
		if (at + sizeof(option) > flow->packet.ip_end ||
		    bpf_skb_load_bytes(skb, at, &option, sizeof(option)) || !option.length)
			return PC_DROP_MALFORMED;
		if ((option.type == PC_ND_SOURCE_LINK || option.type == PC_ND_TARGET_LINK) &&
		    !pc_mac_eq(option.mac, pod->mac))
			return PC_DROP_SPOOFED_ND;
		at += option.length * 8;
	}
	return at == flow->packet.ip_end ? PC_PASS : PC_DROP_MALFORMED;
}

static __always_inline bool pc_is_own_address(const struct pc_flow *flow,
					      const struct pc_addr6 *addr)
{
	return pc_addr_is_link_local(addr) || pc_has_address(flow->device, PC_IPV6, addr);
}

/* An advertisement says "this address is mine". So does a solicitation from the unspecified
 * address: duplicate address detection.
 */
static __always_inline enum drop_reason pc_nd_target(struct __sk_buff *skb,
						     const struct pc_flow *flow)
{
	__u8 type = flow->packet.icmp >> 8;
	struct pc_addr6 target;

	if (type != PC_ND_ADVERT && !(type == PC_ND_SOLICIT && pc_addr_is_zero(&flow->tuple.saddr)))
		return PC_PASS;
	if (bpf_skb_load_bytes(skb, flow->packet.l4 + PC_ND_TARGET_AT, &target, sizeof(target)))
		return PC_DROP_MALFORMED;
	return pc_is_own_address(flow, &target) ? PC_PASS : PC_DROP_SPOOFED_ND;
}

/* The message is of one of the two kinds above, and comes from a pod. */
static __always_inline enum drop_reason pc_check_nd_sender(struct __sk_buff *skb,
							   const struct pc_flow *flow)
{
	__u32 device = flow->device;
	struct pc_endpoint *pod = bpf_map_lookup_elem(&pc_if, &device);
	enum drop_reason reason;

	if (!pod)
		return PC_DROP_NO_ENDPOINT;
	if (flow->packet.fragment)
		return PC_DROP_MALFORMED; /* RFC 6980 */
	if (!pc_mac_eq(flow->packet.smac, pod->mac))
		return PC_DROP_SPOOFED_MAC;
	if (!pc_addr_is_zero(&flow->tuple.saddr) && !pc_is_own_address(flow, &flow->tuple.saddr))
		return PC_DROP_SPOOFED_ND;
	if (pc_is_mld(flow))
		return PC_PASS;
	reason = pc_nd_target(skb, flow);
	return reason ? reason : pc_nd_options(skb, flow, pod);
}
