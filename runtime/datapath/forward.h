/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* forward.h - the fast path between two pods of
 * this node (docs/decisions/0021-handed-over.md).
 * Gives pc_is_forwarded(), pc_may_forward(), pc_forward() to from_pod, pc_forward_learn() to
 * to_pod. A packet of a known connection is redirected to the peer of the receiver's veth. to_pod
 * does not see it, so the entry must hold all that to_pod would check.
 */
#pragma once
#include "ct.h"
#include "hop_limit.h"
#include "mtu.h"
#include "packet.h"
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stddef.h>

static __always_inline __u32 pc_came(const struct pc_ct_match *match)
{
	return match->is_reply ? PC_CT_CAME_SRC : PC_CT_CAME_DST;
}

static __always_inline bool pc_has_peer(const struct pc_ct_match *match)
{
	return match->at.ct->peers & (match->is_reply ? PC_DECIDED_SRC : PC_DECIDED_DST);
}

/* The stack path has brought such packets here, or would only route them (first_packet.h).
 * Otherwise the stack may change or drop them.
 */
static __always_inline bool pc_is_forwarded(const struct pc_ct_match *match)
{
	return match->at.ct->state & pc_came(match) && pc_has_peer(match);
}

/* to_pod: whether the entry can learn from a packet that passes here. It cannot if the packet goes
 * to a MAC other than the pod's.
 */
static __always_inline bool pc_forward_teaches(struct __sk_buff *skb,
					       const struct pc_ct_match *match)
{
	__u8 mac[PC_MAC_LEN];

	if (match->at.ct->state & pc_came(match) || !pc_has_peer(match) ||
	    pc_ct_sender(match)->ifindex & PC_SLAVE)
		return false; /* no redirect leads here from another network namespace */
	return !bpf_skb_load_bytes(skb, 0, mac, sizeof(mac)) &&
	       pc_mac_eq(mac, pc_ct_receiver(match)->mac);
}

/* Later packets get the MACs with which the stack sent this one. */
static __always_inline void pc_forward_learn(const struct pc_flow *flow,
					     const struct pc_ct_match *match)
{
	__builtin_memcpy(pc_ct_receiver(match)->gateway, flow->packet.smac, PC_MAC_LEN);
	__sync_fetch_and_or(&match->at.ct->state, pc_came(match));
}

/* The part from the Ethernet header on that forwarding changes. */
struct pc_head {
	__u8 dmac[PC_MAC_LEN], smac[PC_MAC_LEN];
	__be16 ethertype;
	union {
		struct {
			__u8 before_ttl[8];
			__u8 ttl;
			__u8 protocol;
			__u16 check;
		} ip4;
		struct {
			__u8 before_limit[7];
			__u8 hop_limit;
		} ip6;
	};
};
_Static_assert(offsetof(struct pc_head, ip4.check) ==
		   sizeof(struct ethhdr) + offsetof(struct iphdr, check),
	       "as on the wire");
_Static_assert(offsetof(struct pc_head, ip6.hop_limit) ==
		   sizeof(struct ethhdr) + offsetof(struct ipv6hdr, hop_limit),
	       "as on the wire");

/* No options and no extension headers, which routers must process; no fragment, because fragments
 * are recorded; and hops left, or the sender must be told.
 */
static __always_inline bool pc_is_plain(const struct pc_flow *flow)
{
	__u32 header =
	    flow->tuple.family == PC_IPV4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);

	return flow->packet.l4 == ETH_HLEN + header && !flow->packet.fragment &&
	       flow->packet.hop_limit > 1;
}

/* Forwards like the stack: to the pod's MAC, from its gateway's MAC, with one hop less. The
 * checksum changes by the same amount (RFC 1624), so a wrong checksum stays wrong. One store:
 * either all of it happens, or nothing.
 */
static __always_inline bool pc_readdress(struct __sk_buff *skb, const struct pc_flow *flow,
					 const struct pc_ct_end *to)
{
	bool is_summed6 = flow->tuple.family == PC_IPV6 && flow->packet.is_summed;
	struct pc_head head;
	__u32 check;

	if (is_summed6 && !pc_take_hop6(skb, flow))
		return false;
	if (!pc_read(skb, 0, &head, sizeof(head)))
		return false;
	__builtin_memcpy(head.dmac, to->mac, sizeof(head.dmac));
	__builtin_memcpy(head.smac, to->gateway, sizeof(head.smac));
	if (flow->tuple.family == PC_IPV4) {
		head.ip4.ttl--;
		check = head.ip4.check + bpf_htons(0x0100);
		head.ip4.check = check + (check >= 0xffff);
	} else if (!is_summed6) {
		head.ip6.hop_limit--;
	}
	return !bpf_skb_store_bytes(skb, 0, &head, sizeof(head), 0);
}

/* Whether the stack need not see this packet. */
static __always_inline bool pc_may_forward(struct __sk_buff *skb, struct pc_flow *flow,
					   const struct pc_ct_end *to)
{
	return skb->pkt_type == PACKET_HOST && to->ifindex != skb->ifindex && pc_is_plain(flow) &&
	       pc_fits(skb, flow, to->ifindex);
}

/* Sets forward_to, unless the stack must see the packet. The verifier checks this function once. */
__noinline int pc_forward(struct __sk_buff *skb, struct pc_flow *flow, const struct pc_ct_end *to)
{
	if (!flow || !to || !pc_may_forward(skb, flow, to) || !pc_readdress(skb, flow, to))
		return 0;
	skb->mark = 0;
	flow->action.forward_to = to->ifindex;
	return 0;
}
