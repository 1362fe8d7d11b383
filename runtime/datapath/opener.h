/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* opener.h - which end has opened the connection of a packet that finds no entry and is no SYN.
 * Gives pc_ask_new(), pc_ask_again() to the hooks, pc_node_has_opened() to to_pod.
 *
 * The sockets of the ends tell: of the two, one has connected and the other has accepted. A port
 * number tells nothing, as a pod chooses its own; nor does a socket that listens while no
 * connection has this packet's tuple, as a pod could send what it likes by its side. Where the
 * sockets do not tell, the packet passes if it is allowed whichever end has opened the connection.
 * Why: docs/decisions/0044-which-end-opened-it.md
 */
#pragma once
#include "ct_decided.h"
#include "device_to.h"
#include "end_socket.h"
#include "endpoints.h"
#include "fragments.h"
#include "generation.h"
#include "host_end.h"
#include "own_node.h"

/* Of a pod of this node, in its network namespace. */
static __always_inline int pc_pod_says(struct __sk_buff *skb, const struct pc_flow *flow,
				       enum pc_flow_end own)
{
	const struct pc_endpoint *ep = own == PC_FLOW_DST ? &flow->dst : &flow->src;
	__u32 netns = ep->flags >> PC_ENDPOINT_NETNS;

	if (!ep->ifindex || !netns)
		return PC_SOCKET_SILENT;
	return pc_socket_says(skb, flow, own, netns - 1);
}

/* Whether sockets of this end are found: it has no socket where none says anything. */
static __always_inline bool pc_is_stack_here(struct __sk_buff *skb, const struct pc_flow *flow,
					     enum pc_flow_end own)
{
	const struct pc_endpoint *ep = own == PC_FLOW_DST ? &flow->dst : &flow->src;

	if (ep->ifindex > PC_HOST_DEVICE)
		return ep->flags >> PC_ENDPOINT_NETNS;
	return own == PC_FLOW_DST && pc_is_to_own(skb, flow);
}

/* A socket claims that the other end has opened the connection. The stack of that end has to know
 * the connection where it is here; a reset says that it knows it no more. Elsewhere the claim holds
 * until the next load, which asks again.
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

/* The end that has opened the flow's connection; PC_FLOW_NONE where its sockets do not tell, or
 * contradict each other. Ends that are filled in.
 */
__noinline int pc_flow_opener(struct __sk_buff *skb, struct pc_flow *flow)
{
	int src, dst;

	if (!flow || flow->t.proto != IPPROTO_TCP)
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

/* Whether the node has opened what it sends in the middle of: its socket tells. */
static __always_inline bool pc_node_has_opened(struct __sk_buff *skb, const struct pc_flow *flow)
{
	return flow->t.proto == IPPROTO_TCP &&
	       pc_socket_says(skb, flow, PC_FLOW_SRC, BPF_F_CURRENT_NETNS) == PC_SOCKET_CONNECTED;
}

/* A pod answers on a connection that the node has opened, which passes where no policy denies just
 * that (semantics A22). A function of its own for its stack.
 */
__noinline int pc_node_opened(struct pc_flow *flow)
{
	if (!flow)
		return PC_DROP_CT_FULL;
	pc_flow_turn(flow);
	flow->src.ifindex = 0; /* also of a node under host policy */
	if (!pc_ct_insert(flow, 0, 0, PC_CT_NODE))
		return PC_DROP_CT_FULL;
	pc_frag_record(flow);
	return PC_PASS;
}

/* Asks the policy about a flow whose opener no entry tells; does not return then. */
static __always_inline enum drop_reason pc_ask_unknown(struct __sk_buff *skb, struct pc_flow *flow,
						       __u32 slot)
{
	int opener = pc_flow_opener(skb, flow);

	if (opener == PC_FLOW_NODE && slot & PC_STATE_OWN_NODE) {
		pc_flow_turn(flow);
		return pc_ask_own_node(skb, flow, slot);
	}
	if (opener == PC_FLOW_NODE)
		return pc_node_opened(flow);
	if (opener == PC_FLOW_NONE) {
		flow->opener = PC_OPENER_PROBE;
		flow->slot = slot & PC_STATE_SLOT;
	}
	if (opener != PC_FLOW_SRC)
		pc_flow_turn(flow);
	return pc_ask_policy(skb, slot);
}

/* Asks about a packet that finds no entry. */
static __always_inline enum drop_reason pc_ask_new(struct __sk_buff *skb, struct pc_flow *flow,
						   __u32 slot)
{
	if (pc_has_opening(flow->t.proto) && !flow->opens)
		return pc_ask_unknown(skb, flow, slot);
	return pc_ask_policy(skb, slot);
}

/* Asks about a connection that another policy has decided; the flow is in its direction. */
static __always_inline enum drop_reason pc_ask_again(struct __sk_buff *skb, struct pc_flow *flow,
						     const struct pc_ct_match *match, __u32 slot)
{
	bool is_known = pc_ct_tells_opener(match);

	if (!match->at.is_kept)
		pc_ct_hold(flow);
	return is_known ? pc_ask_policy(skb, slot) : pc_ask_unknown(skb, flow, slot);
}
