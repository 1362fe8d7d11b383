/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* opener.h - which end opened the connection of a packet that has no entry and is no SYN.
 * Gives pc_ask_new(), pc_ask_again() to the hooks, pc_node_has_opened() to to_pod.
 *
 * The sockets of the ends tell: one has connected, the other has accepted. A port number is no
 * evidence, as a pod chooses its own. Nor is a listening socket without a connection of this tuple:
 * a pod could open one and then send any packet. If the sockets do not tell, the packet passes only
 * if the policy allows the connection whichever end opened it. Why:
 * docs/decisions/0044-which-end-opened-it.md
 */
#pragma once
#include "ct_decided.h"
#include "device.h"
#include "device_to.h"
#include "end_socket.h"
#include "endpoints.h"
#include "fragments.h"
#include "generation.h"
#include "host_end.h"
#include "own_node.h"

/* For a pod of this node: the lookup runs in its network namespace. */
static __always_inline int pc_pod_says(struct __sk_buff *skb, const struct pc_flow *flow,
				       enum pc_flow_end own)
{
	const struct pc_endpoint *ep = own == PC_FLOW_DST ? &flow->dst : &flow->src;
	__u32 netns = ep->flags >> PC_ENDPOINT_NETNS_SHIFT;

	if (!ep->ifindex || !netns)
		return PC_SOCKET_SILENT;
	return pc_socket_says(skb, flow, own, netns - 1);
}

/* Whether lookups reach this end's sockets: then no result means that it has no socket. */
static __always_inline bool pc_is_stack_here(struct __sk_buff *skb, const struct pc_flow *flow,
					     enum pc_flow_end own)
{
	const struct pc_endpoint *ep = own == PC_FLOW_DST ? &flow->dst : &flow->src;

	if (ep->ifindex > PC_HOST_DEVICE)
		return ep->flags >> PC_ENDPOINT_NETNS_SHIFT;
	return own == PC_FLOW_DST && pc_is_to_own(skb, flow);
}

/* A socket claims that the other end opened the connection. If that end's stack is on this node, it
 * must know the connection; a reset says that it no longer does. Otherwise the claim holds until
 * the next load, which checks it again.
 */
static __always_inline int pc_flow_claimed(struct __sk_buff *skb, struct pc_flow *flow,
					   enum pc_flow_end other, int says)
{
	if (says == PC_SOCKET_CONNECTED)
		return other;
	if (says != PC_SOCKET_SILENT)
		return PC_FLOW_NONE;
	if (pc_is_stack_here(skb, flow, other))
		return pc_is_sent_to(flow, other) ? PC_FLOW_NONE : other;
	if (flow->epoch != PC_FIRST_EPOCH)
		return PC_FLOW_NONE;
	flow->opener = PC_OPENER_CLAIMED;
	return other;
}

/* The end that opened the flow's connection; PC_FLOW_NONE if its sockets do not tell, or contradict
 * each other. The flow's ends must be filled in.
 */
__noinline int pc_flow_opener(struct __sk_buff *skb, struct pc_flow *flow)
{
	int src, dst;

	if (!flow || flow->tuple.proto != IPPROTO_TCP || pc_is_at_slave(flow))
		return PC_FLOW_NONE;
	src = pc_pod_says(skb, flow, PC_FLOW_SRC);
	dst = pc_pod_says(skb, flow, PC_FLOW_DST);
	if (flow->dst.ifindex <= PC_HOST_DEVICE)
		dst = pc_socket_says(skb, flow, PC_FLOW_DST, BPF_F_CURRENT_NETNS);
	if (flow->dst.ifindex <= PC_HOST_DEVICE && dst == PC_SOCKET_CONNECTED)
		return PC_FLOW_NODE;
	if (src == PC_SOCKET_CLAIMS)
		return pc_flow_claimed(skb, flow, PC_FLOW_DST, dst);
	if (dst == PC_SOCKET_CLAIMS)
		return pc_flow_claimed(skb, flow, PC_FLOW_SRC, src);
	if (src == dst)
		return PC_FLOW_NONE;
	return src == PC_SOCKET_CONNECTED || dst == PC_SOCKET_ACCEPTED ? PC_FLOW_SRC : PC_FLOW_DST;
}

/* Whether the node opened the connection of its own mid-connection packet: its socket tells. */
static __always_inline bool pc_node_has_opened(struct __sk_buff *skb, const struct pc_flow *flow)
{
	return flow->tuple.proto == IPPROTO_TCP && !pc_is_at_slave(flow) &&
	       pc_socket_says(skb, flow, PC_FLOW_SRC, BPF_F_CURRENT_NETNS) == PC_SOCKET_CONNECTED;
}

/* A pod answers on a connection that the node opened. It passes unless an own-node rule denies it
 * (semantics A22). A separate function, for its own stack frame.
 */
__noinline int pc_node_opened(struct pc_flow *flow)
{
	if (!flow)
		return PC_DROP_CT_FULL;
	pc_flow_turn(flow);
	flow->src.ifindex = 0; /* also for a node under host policy */
	if (!pc_ct_insert(flow, 0, 0, PC_CT_NODE))
		return PC_DROP_CT_FULL;
	pc_frag_record(flow);
	return PC_PASS;
}

/* Calls the policy for a flow whose opener no entry tells; does not return then. */
static __always_inline enum drop_reason pc_ask_unknown(struct __sk_buff *skb, struct pc_flow *flow,
						       __u32 state)
{
	int opener = pc_flow_opener(skb, flow);

	if (opener == PC_FLOW_NODE && state & PC_STATE_OWN_NODE) {
		pc_flow_turn(flow);
		return pc_ask_own_node(skb, flow, state);
	}
	if (opener == PC_FLOW_NODE)
		return pc_node_opened(flow);
	if (opener == PC_FLOW_NONE) {
		flow->opener = PC_OPENER_TRY_BOTH;
		flow->action.policy_slot = state & PC_STATE_SLOT;
	}
	if (opener != PC_FLOW_SRC)
		pc_flow_turn(flow);
	return pc_ask_policy(skb, state);
}

/* Calls the policy for a packet without an entry. */
static __always_inline enum drop_reason pc_ask_new(struct __sk_buff *skb, struct pc_flow *flow,
						   __u32 state)
{
	if (pc_has_opening(flow->tuple.proto) && !flow->packet.is_opening)
		return pc_ask_unknown(skb, flow, state);
	return pc_ask_policy(skb, state);
}

/* Calls the policy for a connection that another policy decided; the flow is in its direction. */
static __always_inline enum drop_reason pc_ask_again(struct __sk_buff *skb, struct pc_flow *flow,
						     const struct pc_ct_match *match, __u32 state)
{
	bool is_known = pc_ct_tells_opener(match);

	if (!match->at.is_established)
		pc_ct_hold(flow);
	return is_known ? pc_ask_policy(skb, state) : pc_ask_unknown(skb, flow, state);
}
