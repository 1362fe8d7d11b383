/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* to_pod.h - a packet that reaches a pod from the host's stack: the node's own, or forwarded.
 * Decides each packet that from_pod has not decided.
 */
#pragma once
#include "reassembly.h"
#include "frag_sender.h"
#include "generation.h"
#include "nat_follow.h"
#include "nat_forward.h"
#include "nat_icmp.h"
#include "neighbour.h"
#include "opener.h"
#include "own_node.h"
#include "parse.h"
#include "related.h"
#include "slave.h"

/* Generated on this node: it came in by no device. A node address alone is not enough. For IPv6
 * fragments neither is enough: ip6_fragment() loses the device that the packet came by, so any
 * external host could bypass the policy with fragments. The node's own fragments have a socket. The
 * same holds for packets that were not parsed, as the parser may not have reached their fragment
 * header.
 */
static __always_inline bool pc_is_from_node(const struct __sk_buff *skb, const struct pc_flow *flow,
					    enum drop_reason parsed)
{
	if (pc_came_in(skb, flow))
		return false;
	return pc_is_at_slave(flow) || skb->sk ||
	       !(flow->packet.fragment || (parsed && flow->packet.ethertype == ETH_P_IPV6));
}

/* Whether the node's packet opens a connection that the pod may answer. A reply of the node (a
 * SYN-ACK, a reset or an ICMP error) must not admit the pod's packets. In the middle of a
 * connection the node's socket must tell that the node opened it.
 */
static __always_inline bool pc_node_opens(struct __sk_buff *skb, const struct pc_flow *flow)
{
	if (pc_is_icmp(&flow->tuple))
		return flow->packet.is_opening && flow->tuple.sub == PC_SUB_NONE;
	if (flow->packet.is_opening ||
	    (flow->tuple.proto != IPPROTO_TCP && flow->tuple.proto != IPPROTO_SCTP))
		return true;
	return !(flow->packet.tcp_flags & (PC_TCP_SYN | PC_TCP_RST)) &&
	       pc_node_has_opened(skb, flow);
}

/* The node continues a connection under another policy. Without the pod's present device and MAC in
 * the entry, replies of a pod that moved to another device would count as spoofed.
 */
static __always_inline void pc_to_pod_node_again(struct pc_flow *flow, struct pc_ct *ct)
{
	pc_endpoints_of(flow);
	if (flow->dst.ifindex == flow->device && !pc_is_pod(&flow->src))
		pc_ct_renew_node(ct, flow);
}

/* Whether the policy must decide again what the node continues: an own-node rule may deny it.
 * Packets of the node to a Service by a route are decided each time, as the route knows no policy.
 */
static __always_inline bool pc_is_to_ask_again(const struct pc_ct_match *match, __u32 state)
{
	__u32 own = match->at.ct->state & (PC_CT_NODE | PC_CT_NAT);

	return state & PC_STATE_OWN_NODE && !match->is_reply &&
	       !(match->is_fresh && own == PC_CT_NODE);
}

/* Passes, unless an own-node rule denies it (semantics A22). The entry is for the pod's replies. A
 * connection that the pod opened keeps its epoch: the node's reply says nothing about the pod's
 * policy.
 */
static __always_inline int pc_to_pod_from_node(struct __sk_buff *skb, struct pc_flow *flow,
					       __u32 state)
{
	struct pc_ct_match match;
	enum drop_reason reason;
	int step;

	if (flow->packet.fragment == PC_FRAG_LATER) {
		if (state & PC_STATE_SERVICES && pc_frag_first(flow))
			return pc_nat_follow(skb, flow, true);
		return PC_PASS;
	}
	match = pc_ct_find(flow);
	if (match.at.ct && state & PC_STATE_SERVICES) {
		reason = pc_from_service(skb, flow, &match, true);
		if (reason)
			return reason;
		if (flow->action.frag_backend)
			pc_frag_passed(flow);
	}
	if (match.at.ct && pc_is_to_ask_again(&match, state)) {
		pc_endpoints_of(flow);
		if (flow->dst.ifindex == flow->device && !pc_is_pod(&flow->src)) {
			flow->action.entry_op = PC_ENTRY_RENEW;
			return pc_ask_own_node(skb, flow, state);
		}
	}
	if (match.at.ct) {
		if (match.at.ct->state & PC_CT_NODE && !match.is_reply && !match.is_fresh)
			pc_to_pod_node_again(flow, match.at.ct);
		pc_ct_touch(&match.at, flow, match.is_reply);
		return PC_PASS;
	}
	if (state & PC_STATE_SERVICES && pc_is_icmp_error(flow)) {
		step = pc_error(skb, flow, PC_BY_OTHERS);
		return step == PC_STEP_OTHER ? PC_PASS : step;
	}
	if (!pc_node_opens(skb, flow))
		return PC_PASS;
	pc_endpoints_of(flow);
	if (flow->dst.ifindex != flow->device || pc_is_pod(&flow->src))
		return PC_PASS;
	if (state & PC_STATE_OWN_NODE)
		return pc_ask_own_node(skb, flow, state);
	pc_ct_insert(flow, 0, 0, PC_CT_NODE | pc_ct_opening(flow));
	return PC_PASS;
}

static __always_inline enum drop_reason pc_to_pod_known(struct __sk_buff *skb, struct pc_flow *flow,
							const struct pc_ct_match *match)
{
	enum drop_reason reason = pc_check_ingress_device(skb, flow, pc_ct_sender(match)->ifindex);

	if (reason)
		return reason;
	if (pc_ct_receiver(match)->ifindex != flow->device)
		return PC_DROP_NOT_FOR_POD;
	pc_forward_seen(skb, flow, match);
	pc_ct_touch(&match->at, flow, match->is_reply);
	pc_frag_passed(flow);
	return PC_PASS;
}

static __always_inline int pc_to_pod_forwarded(struct __sk_buff *skb, struct pc_flow *flow,
					       __u32 state)
{
	struct pc_ct_match match = {};
	enum drop_reason reason;
	bool was_node = false;
	int step;

	if (flow->packet.fragment == PC_FRAG_FIRST && pc_first_reassembles(flow) &&
	    !flow->src.ifindex)
		return flow->dst.ifindex == flow->device ? PC_STEP_REASSEMBLE : PC_DROP_NOT_FOR_POD;
	if (flow->packet.fragment != PC_FRAG_LATER &&
	    !(state & PC_STATE_SERVICES && pc_is_icmp_error(flow)))
		match = pc_ct_find(flow);
	/* The node's own connection, continued by an external host, or by a pod that has the node's
	 * address now: the policy decides about that pod.
	 */
	if (match.at.ct && match.at.ct->state & PC_CT_NODE && !match.is_reply) {
		if (match.is_fresh)
			return PC_DROP_SPOOFED_IP;
		match.at.ct = 0;
		was_node = true; /* the entry tells that this end opened it */
	}
	if (state & PC_STATE_SERVICES) {
		reason = pc_from_service(skb, flow, &match, false);
		if (reason)
			return reason;
	}
	if (match.at.ct && match.is_fresh)
		return pc_to_pod_known(skb, flow, &match);
	pc_endpoints_of(flow);
	reason = pc_check_ingress_device(skb, flow, flow->src.ifindex);
	if (reason)
		return reason;
	if (flow->dst.ifindex != flow->device)
		return PC_DROP_NOT_FOR_POD;
	if (flow->packet.fragment == PC_FRAG_LATER)
		return pc_nat_follow(skb, flow, true);
	if (pc_is_icmp_error(flow)) {
		step = pc_error(skb, flow, PC_BY_OTHERS);
		if (step != PC_STEP_OTHER)
			return step;
	}
	if (match.at.ct) {
		flow->action.entry_op = PC_ENTRY_RENEW;
		if (match.is_reply)
			pc_flow_turn(flow);
		return pc_ask_again(skb, flow, &match, state);
	}
	return was_node ? pc_ask_policy(skb, state) : pc_ask_new(skb, flow, state);
}

/* `slave` is the device of an ipvlan slave, and `stamp` its packet's; 0: the hook is at the pod's
 * host-side device.
 */
static __always_inline int pc_to_pod_frame(struct __sk_buff *skb, struct pc_flow *flow, __u32 slave,
					   __u32 stamp)
{
	enum drop_reason reason = pc_parse(skb, flow);
	bool from_node;
	__u32 state;

	if (slave) {
		flow->device = slave;
		flow->stamp = stamp;
		if (stamp == PC_STAMP_NONE)
			return PC_DROP_UNCHECKED;
	}
	from_node = pc_is_from_node(skb, flow, reason);
	if (reason)
		return from_node ? PC_PASS : reason;
	if (flow->packet.ethertype == ETH_P_ARP ||
	    (from_node && (pc_is_nd(flow) || pc_is_mld(flow))) || pc_is_heard_on_link(flow) ||
	    (slave && pc_is_nd(flow)))
		return slave ? pc_check_neighbour(skb, flow) : PC_PASS;
	state = pc_generation(flow);
	if (from_node)
		return pc_to_pod_from_node(skb, flow, state);
	return pc_to_pod_forwarded(skb, flow, state);
}
