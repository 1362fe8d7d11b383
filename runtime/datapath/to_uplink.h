/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* to_uplink.h - a packet that leaves the node. Is it a Service's reply to an external client? Is
 * it a pod's, for SNAT? Its own hook has let it pass. Only the node's own packets are decided here,
 * under host policy (host.h).
 */
#pragma once
#include "fragments.h"
#include "generation.h"
#include "host.h"
#include "snat_hooks.h"
#include "forward_learn.h"
#include "nat_follow.h"
#include "nat_icmp.h"
#include "external.h"
#include "parse.h"
#include "service_reject.h"
#include "tunnel.h"
#include "tunnel_port.h"
#include "return_path.h"
#include "way_out.h"

/* Checked while the packet is still the endpoint's: the endpoint is told. */
static __always_inline bool pc_answer_is_too_big(struct __sk_buff *skb, struct pc_flow *flow,
						 const struct pc_ct *ct)
{
	const struct pc_external *external = pc_external_now();

	return external && pc_ct_node(ct) && !pc_is_dsr(pc_backend_of(ct->dst.nat.backend)) &&
	       pc_is_too_big(skb, flow, external->tunnel);
}

/* Tells the endpoint by an ICMP error that looks like the client's, about its reply. */
static __always_inline int pc_tell_endpoint(struct __sk_buff *skb, const struct pc_flow *flow)
{
	int verdict = pc_reject_answer(skb, flow, pc_tc_action(PC_DROP_TOO_BIG));

	if (verdict == TC_ACT_SHOT)
		return verdict;
	skb->mark = PC_ERROR_MARK;
	return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}

static __always_inline int pc_to_uplink_later(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_frag *first = pc_frag_first(flow);

	if (!first || !(first->backend & PC_FRAG_REPLY))
		return PC_STEP_OTHER;
	if (!pc_is_dsr(pc_backend_of(first->backend & ~PC_FRAG_REPLY)))
		flow->action.node = first->node;
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	flow->client = PC_CLIENT_EXTERNAL;
	return pc_nat_follow(skb, flow, true);
}

static __always_inline int pc_to_uplink_error(struct __sk_buff *skb, struct pc_flow *flow,
					      __u32 state)
{
	int error = PC_STEP_OTHER;

	if (state & PC_STATE_SNAT)
		error = pc_snat_error_out(skb, flow);
	if (error != PC_STEP_OTHER)
		return error;
	if (state & PC_STATE_SERVICES) {
		flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
		error = pc_error(skb, flow, PC_BY_OTHERS);
		if (error && error != PC_STEP_OTHER)
			return error;
		if (!error)
			flow->client = PC_CLIENT_EXTERNAL;
	}
	return state & PC_STATE_SNAT ? pc_snat_may_report(skb, flow) : PC_PASS;
}

static __always_inline int pc_to_uplink_service(struct __sk_buff *skb, struct pc_flow *flow,
						const struct pc_ct_match *match)
{
	struct pc_ct *ct = match->at.ct;

	if (!ct || !(ct->state & PC_CT_NAT) || ct->src.ifindex || ct->state & PC_CT_OTHER_NODE)
		return PC_STEP_OTHER;
	if (ct->state & PC_CT_PRE_NAT)
		return PC_DROP_SPOOFED_IP; /* only this hook writes the Service's source */
	if (!match->is_reply)
		return PC_STEP_OTHER;
	if (pc_is_tunnel_port(flow->tuple.proto, ct->dst.nat.port))
		return PC_DROP_TUNNEL_PORT; /* the client's port, from here on */
	if (pc_answer_is_too_big(skb, flow, ct))
		return PC_STEP_TELL_SIZE;
	flow->client = PC_CLIENT_EXTERNAL;
	if (pc_reply_teaches(skb, flow, match))
		pc_reply_learn(skb, flow, ct);
	return pc_to_external(skb, flow, ct);
}

/* For a packet that is no later fragment and no ICMP error. If there are no Services, the node's
 * own packets need no lookup for replies.
 */
static __always_inline int pc_to_uplink_whole(struct __sk_buff *skb, struct pc_flow *flow,
					      __u32 state)
{
	struct pc_ct_match match;
	int then = PC_STEP_OTHER;

	if (flow->packet.fragment == PC_FRAG_LATER)
		return state & PC_STATE_SERVICES ? pc_to_uplink_later(skb, flow) : then;
	if (!(state & PC_STATE_SERVICES) && !skb->ingress_ifindex)
		return then;
	match = pc_ct_find(flow);
	if (state & PC_STATE_SERVICES)
		then = pc_to_uplink_service(skb, flow, &match);
	if (then == PC_STEP_OTHER && match.at.ct && pc_out_teaches(skb, flow, &match) &&
	    (!(state & PC_STATE_SNAT) || pc_snat_is_except(flow->tuple.family, &flow->tuple.daddr)))
		pc_out_learn(skb, flow, match.at.ct, match.is_reply, !(state & PC_STATE_HOSTS));
	return then;
}

/* A packet that was not parsed: a pod's own hook drops those, and the stack generates none. */
static __always_inline enum drop_reason pc_to_uplink_odd(struct pc_flow *flow, __u32 state,
							 enum drop_reason reason)
{
	if (!(state & PC_STATE_SNAT))
		return PC_PASS;
	pc_endpoint_at(flow->tuple.family, &flow->tuple.saddr, &flow->src);
	return flow->src.ifindex ? reason : PC_PASS;
}

static __always_inline int pc_to_uplink_asked(struct __sk_buff *skb, struct pc_flow *flow,
					      __u32 state)
{
	int reason = state & PC_STATE_SNAT ? pc_snat_asked(skb, flow) : PC_PASS;

	return reason ? reason : pc_ask_policy(skb, state);
}

static __always_inline int pc_to_uplink_frame(struct __sk_buff *skb, struct pc_flow *flow)
{
	enum drop_reason reason = pc_parse(skb, flow);
	int then;
	__u32 state;

	if (!flow->tuple.family)
		return PC_PASS;
	if (pc_is_forwarded_to_tunnel(skb, flow))
		return PC_DROP_TUNNEL_PORT;
	if (reason && pc_host_unknown(flow, PC_HOST_OUT, reason))
		return reason;
	state = pc_generation(flow);
	if (state & PC_STATE_HOSTS && !reason) {
		then = pc_host_decides(skb, flow, PC_HOST_OUT, state);
		if (then == PC_STEP_DECIDE)
			return pc_to_uplink_asked(skb, flow, state);
		if (then)
			return then;
	}
	if (reason)
		return pc_to_uplink_odd(flow, state, reason);
	if (flow->packet.fragment != PC_FRAG_LATER && pc_is_icmp_error(flow))
		return pc_to_uplink_error(skb, flow, state);
	then = pc_to_uplink_whole(skb, flow, state);
	if (then == PC_STEP_OTHER)
		then = state & PC_STATE_SNAT ? pc_snat_out(skb, flow) : PC_PASS;
	return then;
}
