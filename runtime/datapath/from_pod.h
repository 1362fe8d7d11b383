/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* from_pod.h - a packet that a pod sends: is it really from that pod, and is it allowed? Decides
 * both ends if both are of this node, as a redirect skips the other pod's hook.
 */
#pragma once
#include "reassembly.h"
#include "external_forward.h"
#include "frag_sender.h"
#include "generation.h"
#include "host_end.h"
#include "nat_follow.h"
#include "nat_forward.h"
#include "nat_icmp.h"
#include "neighbour.h"
#include "offload.h"
#include "opener.h"
#include "own_node.h"
#include "parse.h"
#include "related.h"
#include "slave.h"
#include "tunnel_port.h"

/* Updates the entry. Once a second, a connection may enter the bypass (bypass_slot.h). */
static __always_inline void pc_from_pod_touch(const struct pc_ct_match *match, struct pc_flow *flow)
{
	__u64 expires = match->at.ct->expires;

	if (!pc_ct_touch(&match->at, flow, match->is_reply) && match->at.is_established)
		flow->action.is_kept = match->at.ct->expires != expires;
}

/* A connection that the active policy has allowed: no policy runs, and no pod is looked up. */
static __always_inline enum drop_reason
pc_from_pod_known(struct __sk_buff *skb, struct pc_flow *flow, const struct pc_ct_match *match)
{
	enum drop_reason reason = pc_check_entry_sender(flow, pc_ct_sender(match));

	if (reason)
		return reason;
	/* Replies of a Service are recorded where they reach the client: there the pre-NAT entry is
	 * updated, too.
	 */
	if (match->at.ct->state & PC_CT_NAT) {
		if (match->is_reply && pc_is_forwarded(match)) {
			reason = pc_forward_reply(skb, flow, match->at.ct);
			if (reason || flow->action.forward_to)
				return reason;
		} else if (match->is_reply) {
			pc_reply_forward(skb, flow, match);
		}
	} else {
		if (pc_is_forwarded(match))
			pc_forward(skb, flow, pc_ct_receiver(match));
		else if (pc_is_sent_out(flow, match))
			pc_send_out(skb, flow, match->at.ct, match->is_reply);
		pc_from_pod_touch(match, flow);
	}
	pc_frag_passed(flow);
	return PC_PASS;
}

/* The policy changed since the connection was decided. The decision is made for its first packet. A
 * connection that the node opened stays allowed, unless an own-node rule denies it, or a pod now
 * has the node's address.
 */
static __always_inline enum drop_reason pc_from_pod_stale(struct __sk_buff *skb,
							  struct pc_flow *flow,
							  const struct pc_ct_match *match,
							  __u32 state)
{
	flow->action.entry_op = PC_ENTRY_RENEW;
	if (match->is_reply)
		pc_flow_turn(flow);
	if (match->at.ct->state & PC_CT_NODE && !pc_is_pod(&flow->src)) {
		if (state & PC_STATE_OWN_NODE)
			return pc_ask_own_node(skb, flow, state);
		pc_ct_renew_node(match->at.ct, flow);
		pc_ct_touch(&match->at, flow, match->is_reply);
		pc_frag_passed(flow);
		return PC_PASS;
	}
	if (state & PC_STATE_HOSTS)
		pc_host_receives(flow);
	return pc_ask_again(skb, flow, match, state);
}

static __always_inline int pc_from_pod_ip(struct __sk_buff *skb, struct pc_flow *flow,
					  bool is_slave)
{
	__u32 state = pc_generation(flow);
	struct pc_ct_match match = {};
	enum drop_reason reason;
	bool is_done = false;
	int step;

	if (flow->packet.fragment == PC_FRAG_FIRST && pc_first_reassembles(flow)) {
		reason = pc_check_sender(flow);
		return reason ? (int)reason : PC_STEP_REASSEMBLE;
	}
	if (flow->packet.fragment != PC_FRAG_LATER &&
	    !(state & PC_STATE_SERVICES && pc_is_icmp_error(flow)))
		match = pc_ct_find(flow);
	if (state & PC_STATE_SERVICES) {
		step = pc_to_service(skb, flow, &match, state, &is_done);
		if (step)
			return step;
	}
	if (pc_is_to_tunnel(flow))
		return PC_DROP_TUNNEL_PORT;
	if (is_done)
		return PC_PASS;
	if (match.at.ct && match.is_fresh)
		return pc_from_pod_known(skb, flow, &match);
	pc_endpoints_of(flow);
	reason = pc_check_sender(flow);
	if (reason)
		return reason;
	if (flow->packet.fragment == PC_FRAG_LATER)
		return pc_nat_follow(skb, flow, false);
	if (pc_is_icmp_error(flow)) {
		step = pc_error(skb, flow, PC_BY_POD);
		if (step != PC_STEP_OTHER)
			return step;
		if (pc_error_is_forged(skb, flow, state))
			return PC_DROP_UNRELATED;
	}
	if (is_slave && pc_keep_on_parent(skb, flow))
		return PC_DROP_MALFORMED;
	if (match.at.ct)
		return pc_from_pod_stale(skb, flow, &match, state);
	/* The packet may go to the node, whose policy decides it like a pod's. */
	if (state & PC_STATE_HOSTS)
		pc_host_receives(flow);
	return pc_ask_new(skb, flow, state);
}

/* `slave` is the device of an ipvlan slave; 0: the hook is at the pod's host-side device. */
static __always_inline int pc_from_pod_frame(struct __sk_buff *skb, struct pc_flow *flow,
					     __u32 slave)
{
	enum drop_reason reason = pc_parse(skb, flow);

	if (slave)
		flow->device = slave;
	if (reason)
		return reason;
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	if (flow->packet.csum_partial == PC_PARTIAL_INVALID)
		return PC_DROP_MALFORMED;
	if (flow->packet.ethertype == ETH_P_ARP)
		return pc_check_arp_sender(skb, flow);
	if (pc_is_router_speech(flow))
		return PC_DROP_SPOOFED_ND;
	if (pc_is_said_to_link(skb, flow))
		return pc_check_nd_sender(skb, flow);
	return pc_from_pod_ip(skb, flow, slave);
}
