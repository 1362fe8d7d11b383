/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* from_uplink.h - a packet from outside, or forwarded by another node. Packets of external clients
 * to Services, and replies to pods under SNAT, are translated before the host's stack routes them.
 * All others pass, except packets to a node under host policy (host.h). to_pod decides packets to
 * pods.
 */
#pragma once
#include "answerable.h"
#include "reassembly.h"
#include "forward_in.h"
#include "fragments.h"
#include "generation.h"
#include "host.h"
#include "snat_hooks.h"
#include "nat_follow.h"
#include "nat_icmp.h"
#include "offload.h"
#include "external.h"
#include "link_forward.h"
#include "parse.h"
#include "tunnel_unwrap.h"
#include "vlan_tag.h"

/* For a first fragment: why it is dropped, if later ones came before it. Above reassembly's limit
 * the later ones have passed, and so does this one; not under host policy.
 */
__noinline int pc_external_first(struct __sk_buff *skb, struct pc_flow *flow, __u32 state)
{
	int spoofed;

	if (!(state & (PC_STATE_SERVICES | PC_STATE_HOSTS | PC_STATE_SNAT)) || !flow ||
	    !pc_first_reassembles(flow) ||
	    (!(state & PC_STATE_HOSTS) && pc_reasm_is_full(skb->ifindex, flow)))
		return PC_PASS;
	spoofed = pc_check_external(flow);
	return spoofed ? spoofed : PC_STEP_REASSEMBLE;
}

/* Later fragments follow their first one. */
static __always_inline int pc_external_follow(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_frag *first = pc_frag_first(flow);

	if (!first)
		return flow->client == PC_CLIENT_FORWARDED || pc_external_reassembles(flow)
			   ? PC_STEP_REASSEMBLE
			   : PC_PASS;
	if (flow->client == PC_CLIENT_EXTERNAL && !first->backend)
		flow->action.node = first->node;
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	return pc_nat_follow(skb, flow, false);
}

/* A packet of a known connection that is not to a Service, or a reply. False: a packet to a
 * Service, or to an endpoint from a port that the client uses for a Service.
 */
static __always_inline bool pc_is_other(const struct pc_ct_match *match)
{
	return match->at.ct && (match->is_reply || !(match->at.ct->state & PC_CT_NAT));
}

/* A packet without a pre-NAT entry. Looks up the ends that the stack and to_pod will see. */
static __always_inline int pc_from_external(struct __sk_buff *skb, struct pc_flow *flow,
					    const struct pc_ct_match *match, __u32 state)
{
	struct pc_ct *ct = match->at.ct;
	int error;

	if (pc_is_other(match))
		return PC_PASS;
	if (pc_is_icmp_error(flow)) {
		flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
		error = pc_error(skb, flow, PC_BY_EXTERNAL);
		flow->action.is_related = error != PC_STEP_OTHER;
		if (flow->action.is_related)
			return error;
		return pc_error_is_forged(skb, flow, state) ? PC_DROP_UNRELATED : PC_PASS;
	}
	if (ct && !(ct->state & PC_CT_DENIED) &&
	    pc_nat_backend(ct->dst.nat.backend, flow->tuple.proto))
		return PC_DROP_NAT_TAKEN;
	if (!pc_l4_header(&flow->tuple) || pc_is_icmp(&flow->tuple))
		return PC_PASS;
	return PC_STEP_NEW;
}

static __always_inline int pc_from_uplink_service(struct __sk_buff *skb, struct pc_flow *flow,
						  __u32 state)
{
	struct pc_ct_match match = {};
	struct pc_ct *ct;
	int then = PC_PASS;

	if (flow->packet.fragment != PC_FRAG_LATER && !pc_is_icmp_error(flow))
		match = pc_ct_find(flow);
	ct = match.at.ct;
	if (ct && pc_is_routed(ct))
		return match.is_reply && !(ct->state & PC_CT_PRE_NAT) ? PC_STEP_ROUTE_BACK
								      : PC_DROP_SPOOFED_IP;
	if (ct && match.is_fresh && pc_ct_sender(&match)->ifindex)
		return PC_DROP_SPOOFED_IP;
	if (pc_is_other(&match) && match.is_fresh)
		return ct->state & PC_CT_PRE_NAT ? PC_DROP_SPOOFED_IP
						 : pc_forward_in(skb, flow, &match);
	if (!(state & PC_STATE_SERVICES))
		return pc_check_external(flow);
	if (!match.is_fresh)
		then = pc_check_external(flow);
	if (then)
		return then;
	then = pc_accept_link(skb, flow, ct);
	if (then || flow->action.forward_to)
		return then;
	if (flow->packet.fragment == PC_FRAG_LATER)
		return pc_external_follow(skb, flow);
	if (ct && ct->state & PC_CT_PRE_NAT) {
		if (match.is_reply || ct->src.ifindex)
			return PC_DROP_SPOOFED_IP;
		flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
		then = pc_external_known(skb, flow, match.is_fresh);
	} else {
		then = pc_from_external(skb, flow, &match, state);
	}
	if ((then == PC_STEP_NEW || then == PC_STEP_DECIDE) && match.is_fresh &&
	    pc_check_external(flow))
		return PC_DROP_SPOOFED_IP;
	if (then == PC_STEP_NEW) {
		flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
		then = pc_external_new(skb, flow, state);
	}
	return then == PC_STEP_DECIDE ? pc_external_to_endpoint(skb, flow, state) : then;
}

/* For a later fragment without a first one: it may belong to a reply to a pod, whose first
 * fragment may still come.
 */
__noinline int pc_snat_reassembles(struct pc_flow *flow)
{
	const struct pc_snat_conf *conf = pc_snat_now();

	return flow && conf && pc_snat_is_own(conf, flow->tuple.family, &flow->tuple.daddr) &&
	       !pc_frag_first(flow) && pc_external_reassembles(flow);
}

/* PC_STEP_OTHER: the packet is no reply to a pod that left under the node's address. */
static __always_inline int pc_from_uplink_snat(struct __sk_buff *skb, struct pc_flow *flow,
					       __u32 state)
{
	int then;

	if (!(state & PC_STATE_SNAT) || flow->client != PC_CLIENT_EXTERNAL)
		return PC_STEP_OTHER;
	if (flow->packet.fragment != PC_FRAG_LATER && pc_is_icmp_error(flow))
		return pc_snat_error_in(skb, flow);
	then = pc_snat_in(skb, flow);
	if (then == PC_STEP_OTHER && flow->packet.fragment == PC_FRAG_LATER &&
	    pc_snat_reassembles(flow))
		return PC_STEP_REASSEMBLE;
	return then;
}

/* The packet after SNAT: unless it is to a Service, it may be for the node itself. */
static __always_inline int pc_from_uplink_ip(struct __sk_buff *skb, struct pc_flow *flow)
{
	__u32 state = pc_generation(flow);
	int then = PC_PASS;

	if (flow->client == PC_CLIENT_EXTERNAL && pc_is_to_tunnel(flow) &&
	    (state & (PC_STATE_SERVICES | PC_STATE_HOSTS)) == PC_STATE_SERVICES)
		then = pc_unwrap(skb, flow);
	if (then)
		return then;
	if (flow->packet.fragment == PC_FRAG_FIRST && flow->client == PC_CLIENT_EXTERNAL)
		then = pc_external_first(skb, flow, state);
	if (then)
		return then;
	then = pc_from_uplink_snat(skb, flow, state);
	if (then != PC_STEP_OTHER)
		return then;
	then = pc_from_uplink_service(skb, flow, state);
	if (!(state & PC_STATE_HOSTS) || then || flow->client != PC_CLIENT_EXTERNAL ||
	    flow->nat.backend || flow->action.node || flow->action.is_related ||
	    flow->action.forward_to)
		return then;
	then = pc_host_decides(skb, flow, PC_HOST_IN, state);
	return then == PC_STEP_DECIDE ? pc_ask_policy(skb, state) : then;
}

/* Forwarded by another node: its frame had that node's MAC, and it is to a Service or dropped.
 */
static __always_inline int pc_from_node(struct __sk_buff *skb, struct pc_flow *flow)
{
	int step;

	bpf_skb_change_type(skb, PACKET_HOST);
	step = pc_from_uplink_ip(skb, flow);
	if (!step && !flow->nat.backend && !pc_is_icmp_error(flow) &&
	    flow->packet.fragment != PC_FRAG_LATER)
		return PC_DROP_NO_BACKEND;
	return step;
}

static __always_inline int pc_from_uplink_frame(struct __sk_buff *skb, struct pc_flow *flow)
{
	enum drop_reason reason, spoofed;
	__u32 mark = skb->mark;

	pc_untag(skb);
	reason = pc_parse(skb, flow);
	/* Not IP, or with a VLAN tag. */
	if (!flow->tuple.family)
		return reason == PC_DROP_VLAN && pc_is_priority_tagged(skb, flow) ? PC_DROP_VLAN
										  : PC_PASS;
	flow->client = PC_CLIENT_EXTERNAL;
	if (mark == PC_ERROR_MARK || (mark == PC_ANSWER_MARK && pc_is_answer(skb))) {
		skb->mark = 0;
		bpf_skb_change_type(skb, PACKET_HOST);
		return PC_PASS;
	}
	if ((mark & ~PC_FORWARDED_NODE) == PC_FORWARDED_MARK) {
		skb->mark = 0;
		flow->client = PC_CLIENT_FORWARDED;
		flow->action.node = mark & PC_FORWARDED_NODE;
		return reason ? (int)reason : pc_from_node(skb, flow);
	}
	if (!reason)
		return pc_from_uplink_ip(skb, flow);
	/* A packet that was not parsed is not translated; to_pod drops it if it is for a pod.
	 */
	spoofed = pc_check_external(flow);
	return spoofed ? (int)spoofed : pc_host_unknown(flow, PC_HOST_IN, reason);
}
