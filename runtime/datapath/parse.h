/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* parse.h - parses a frame, from Ethernet to the transport header, into the scratch.
 * Gives pc_parse(). After it, t.family is 0 only for ARP.
 */
#pragma once
#include "parse_ip4.h"
#include "parse_ip6.h"
#include "parse_l4.h"
#include <linux/if_ether.h>

static __always_inline enum drop_reason pc_parse_ethernet(struct __sk_buff *skb,
							  struct pc_flow *flow)
{
	struct ethhdr eth;

	if (!pc_read(skb, 0, &eth, sizeof(eth)))
		return PC_DROP_MALFORMED;
	__builtin_memcpy(flow->packet.smac, eth.h_source, sizeof(flow->packet.smac));
	flow->packet.ethertype = bpf_ntohs(eth.h_proto);
	/* The kernel moves an outer tag out of the frame before tc sees it. */
	if (skb->vlan_present || flow->packet.ethertype == ETH_P_8021Q ||
	    flow->packet.ethertype == ETH_P_8021AD)
		return PC_DROP_VLAN;
	return PC_PASS;
}

/* Returns an enum drop_reason. The verifier checks this function once: inlined, it would track all
 * the parser's branches through the rest of each hook.
 */
__noinline int pc_parse(struct __sk_buff *skb, struct pc_flow *flow)
{
	enum drop_reason reason;

	if (!flow)
		return PC_DROP_MALFORMED;
	__builtin_memset(flow, 0, __builtin_offsetof(struct pc_flow, nat));
	flow->nat.backend = 0;
	flow->device = skb->ifindex;
	reason = pc_parse_ethernet(skb, flow);
	if (reason)
		return reason;
	switch (flow->packet.ethertype) {
	case ETH_P_IP:
		reason = pc_parse_ip4(skb, flow);
		break;
	case ETH_P_IPV6:
		reason = pc_parse_ip6(skb, flow);
		break;
	case ETH_P_ARP:
		return PC_PASS;
	default:
		return PC_DROP_ETHERTYPE;
	}
	if (reason || flow->packet.fragment == PC_FRAG_LATER)
		return reason;
	return pc_parse_l4(skb, flow);
}
