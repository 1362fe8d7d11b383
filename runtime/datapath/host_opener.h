/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* host_opener.h - in which direction a flow of a node under host policy is decided.
 * Gives pc_host_is_asked() and enum pc_host_side. As for pods (opener.h), the node's socket tells
 * which end has opened a connection without an entry. Otherwise both directions must be allowed.
 */
#pragma once
#include "host_end.h"
#include "opener.h"

/* The direction in which a packet passes the uplink. */
enum pc_host_side { PC_HOST_IN = 0, PC_HOST_OUT = 1 };

/* The node's end of the flow. */
static __always_inline enum pc_flow_end pc_host_end(const struct pc_flow *flow,
						    enum pc_host_side side)
{
	return (side == PC_HOST_IN) == !flow->is_reply ? PC_FLOW_DST : PC_FLOW_SRC;
}

/* Whether a failsafe port allows one of the two directions. */
static __always_inline bool pc_host_is_failsafe(const struct pc_flow *flow, enum pc_flow_end own)
{
	enum pc_failsafe_side there = own == PC_FLOW_DST ? PC_FAILSAFE_IN : PC_FAILSAFE_OUT;
	enum pc_failsafe_side back = own == PC_FLOW_DST ? PC_FAILSAFE_OUT : PC_FAILSAFE_IN;

	return pc_is_failsafe(flow, there, flow->tuple.dport) ||
	       pc_is_failsafe(flow, back, flow->tuple.sport);
}

/* The end that has opened the flow's connection; PC_FLOW_NONE if nothing tells. At a failsafe port
 * one direction is allowed anyway, so the packet's own direction is decided. A claim of a socket of
 * the node holds until the next load, as in opener.h.
 */
__noinline int pc_host_flow_opener(struct __sk_buff *skb, struct pc_flow *flow, __u32 own)
{
	int says = PC_SOCKET_SILENT;
	bool is_failsafe;

	if (!flow)
		return PC_FLOW_NONE;
	is_failsafe = pc_host_is_failsafe(flow, own);
	if (flow->tuple.proto == IPPROTO_TCP)
		says = pc_socket_says(skb, flow, own, BPF_F_CURRENT_NETNS);
	if (says == PC_SOCKET_CLAIMS && flow->epoch != PC_FIRST_EPOCH)
		says = PC_SOCKET_SILENT;
	if (says == PC_SOCKET_SILENT)
		return is_failsafe ? PC_FLOW_SRC : PC_FLOW_NONE;
	if (says == PC_SOCKET_CLAIMS && !is_failsafe)
		flow->opener = PC_OPENER_CLAIMED;
	return (says == PC_SOCKET_CONNECTED) == (own == PC_FLOW_SRC) ? PC_FLOW_SRC : PC_FLOW_DST;
}

/* Turns the flow so that it runs from its opener, or has both directions decided. */
static __always_inline void pc_host_turn(struct __sk_buff *skb, struct pc_flow *flow,
					 enum pc_host_side side, __u32 state)
{
	int opener;

	flow->opener = PC_OPENER_KNOWN;
	opener = pc_host_flow_opener(skb, flow, pc_host_end(flow, side));
	if (opener == PC_FLOW_NONE)
		flow->opener = PC_OPENER_TRY_BOTH;
	flow->action.policy_slot = state & PC_STATE_SLOT;
	if (opener != PC_FLOW_SRC)
		pc_flow_turn(flow);
}

/* Whether the policy decides the flow, and not a failsafe port alone. `is_known`: the flow has an
 * entry of another policy, and runs in its direction. PC_OPENER_TRY_BOTH: both were allowed then.
 */
static __always_inline bool pc_host_is_asked(struct __sk_buff *skb, struct pc_flow *flow,
					     enum pc_host_side side, bool is_known, __u32 state)
{
	bool is_new = !is_known && pc_has_opening(flow->tuple.proto) && !flow->packet.is_opening;

	if (is_known && !flow->has_established_entry)
		pc_ct_hold(flow);
	if (is_new || flow->opener == PC_OPENER_TRY_BOTH)
		pc_host_turn(skb, flow, side, state);
	if (pc_host_end(flow, side) == PC_FLOW_DST)
		pc_host_receives(flow);
	else
		pc_host_sends(flow);
	return flow->src.ifindex || flow->dst.ifindex;
}
