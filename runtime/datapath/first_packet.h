/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* first_packet.h - the first packet of a connection on the fast path. Gives pc_forward_first(). The
 * policy has allowed the connection, and its entry is stored. The stack would only route packets of
 * the connection: the FIB leads both ways, and nothing else sees packets on that way. Why:
 * docs/decisions/0060-first-packets-past-the-stack.md
 */
#pragma once
#include "first_other_node.h"
#include "first_path.h"
#include "forwarding6.h"
#include "netfilter.h"

/* Sets the gateways' MACs, to the receiver in `to` and to the sender in the entry. Verified once,
 * on its own, like the functions below.
 */
__noinline int pc_first_routes(struct __sk_buff *skb, struct pc_flow *flow, struct pc_ct *ct,
			       struct pc_ct_end *to)
{
	struct bpf_fib_lookup fib = {};

	if (!flow || !ct || !to || !pc_first_to_pod(skb, flow, &fib, flow->dst.ifindex, true))
		return false;
	__builtin_memcpy(ct->src.gateway, fib.smac, PC_MAC_LEN);
	if (!pc_first_to_pod(skb, flow, &fib, flow->src.ifindex, false))
		return false;
	to->ifindex = flow->dst.ifindex;
	__builtin_memcpy(to->mac, flow->dst.mac, PC_MAC_LEN);
	__builtin_memcpy(to->gateway, fib.smac, PC_MAC_LEN);
	return true;
}

/* Of a connection to a Service the pre-NAT entry holds the path to the endpoint, and both entries
 * must say so (pre_nat.h). False if it is gone.
 */
static __always_inline bool pc_first_learn_pre_nat(const struct pc_flow *flow,
						   const struct pc_ct *ct,
						   const struct pc_ct_end *to)
{
	struct pc_tuple *tuple = pc_pre_nat_of(flow);
	struct pc_ct *pre_nat = tuple ? pc_ct_get(tuple, true).ct : 0;

	if (!pre_nat || pre_nat->flow_id != ct->flow_id || !(pre_nat->state & PC_CT_PRE_NAT))
		return false;
	__builtin_memcpy(pre_nat->dst.gateway, to->gateway, PC_MAC_LEN);
	__sync_fetch_and_or(&pre_nat->state, PC_CT_CAME_DST);
	return true;
}

/* The entries know the path in both directions from here on. */
__noinline int pc_first_learn(const struct pc_flow *flow, struct pc_ct *ct,
			      const struct pc_ct_end *to)
{
	if (!flow || !ct || !to)
		return false;
	if (!flow->nat.backend)
		__builtin_memcpy(ct->dst.gateway, to->gateway, PC_MAC_LEN);
	else if (!pc_first_learn_pre_nat(flow, ct, to))
		return false;
	__sync_fetch_and_or(&ct->state, PC_CT_CAME);
	return true;
}

/* Between two pods of this node: the device to whose peer the packet is redirected, or 0. */
static __always_inline __u32 pc_first_local(struct __sk_buff *skb, struct pc_flow *flow,
					    struct pc_ct *ct)
{
	struct pc_ct_end to = {.ifindex = flow->dst.ifindex};

	if (!pc_may_forward(skb, flow, &to) || !pc_first_routes(skb, flow, ct, &to) ||
	    !pc_readdress(skb, flow, &to))
		return 0;
	pc_first_learn(flow, ct, &to);
	return to.ifindex;
}

/* Whether the stack would do more than route the packet. */
static __always_inline bool pc_first_is_for_stack(struct __sk_buff *skb, const struct pc_flow *flow)
{
	return skb->mark || skb->pkt_type != PACKET_HOST ||
	       pc_has_netfilter(skb, flow->tuple.family) || pc_has_ipsec(skb) ||
	       (flow->tuple.family == PC_IPV6 && !pc_forwards_ipv6(skb));
}

/* The device that the packet is redirected to, with PC_REDIRECTED if that is done already; 0: it
 * takes the stack path, unchanged.
 */
static __always_inline __u32 pc_forward_first(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_ct_at at;

	flow->action.forward_to = 0;
	if (pc_first_is_for_stack(skb, flow))
		return 0;
	at = pc_ct_get(&flow->tuple, true);
	if (!at.ct || !pc_first_is_own(&at, flow))
		return 0;
	if (!flow->src.ifindex)
		pc_first_in(skb, flow, at.ct);
	else if (!flow->dst.ifindex)
		pc_first_out(skb, flow, at.ct);
	else
		return pc_first_local(skb, flow, at.ct);
	return flow->action.forward_to;
}
