/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* host.h - packets to or from a node under host policy, at an uplink.
 * Gives pc_host_decides(), pc_host_unknown(). A bit of the generation's word enables it. Forwarded
 * packets are not decided here. Why: docs/decisions/0031-the-node-as-a-subject.md
 */
#pragma once
#include "host_opener.h"
#include "host_snat.h"
#include "nat_icmp.h"
#include "neighbour.h"
#include "external.h"
#include "tunnel_port.h"

/* The next step, if the value is no reason: the packet opens a connection (NEW); the policy decides
 * again, in the entry's direction (STALE) or the reverse (REPLY); the client's Service connection
 * is decided again (NAT); the host forwards it (ROUTED); no policy decides it (OPEN).
 */
enum pc_host_next {
	PC_HOST_NEW = PC_STEP_LAST,
	PC_HOST_STALE = PC_STEP_LAST - 1,
	PC_HOST_REPLY = PC_STEP_LAST - 2,
	PC_HOST_NAT = PC_STEP_LAST - 3,
	PC_HOST_ROUTED = PC_STEP_LAST - 4,
	PC_HOST_OPEN = PC_STEP_LAST - 5,
};

/* No end of the connection is a pod of this node: this hook must keep the entry alive. */
static __always_inline bool pc_is_without_pods(const struct pc_ct *ct)
{
	return ct->src.ifindex <= PC_HOST_DEVICE && ct->dst.ifindex <= PC_HOST_DEVICE;
}

/* Packets that nodes forward to each other: the inner one is decided. Both ends have that port. */
static __always_inline bool pc_is_between_nodes(const struct pc_flow *flow, enum pc_host_side side)
{
	const __u32 *other;

	if (!pc_is_to_tunnel(flow))
		return false;
	other = pc_node_at(flow->tuple.family,
			   side == PC_HOST_IN ? &flow->tuple.saddr : &flow->tuple.daddr);
	return other && *other;
}

/* Link-local protocols (ND, MLD). Routed packets of these kinds do not count. */
static __always_inline bool pc_is_link_talk(const struct pc_flow *flow)
{
	return pc_is_nd(flow) || (pc_is_mld(flow) && pc_addr_is_link_group(&flow->tuple.daddr));
}

/* A known connection passes; if it is a pod's, the pod's own hook does the rest. This and the next
 * functions are separate, because the hooks' stacks are full.
 */
__noinline int pc_host_known(struct __sk_buff *skb, struct pc_flow *flow, enum pc_host_side side)
{
	struct pc_ct_match match;

	if (!flow)
		return PC_DROP_NO_POLICY;
	if (pc_is_link_talk(flow))
		return PC_PASS;
	if (flow->packet.fragment == PC_FRAG_LATER)
		return PC_HOST_NEW;
	match = pc_ct_find(flow);
	if (!match.at.ct)
		return PC_HOST_NEW;
	if (match.at.ct->state & PC_CT_NODE && pc_is_without_pods(match.at.ct)) {
		match.at.ct->epoch = flow->epoch;
		match.is_fresh = true;
		if (pc_is_host_snat(match.at.ct))
			return pc_host_snat_passes(skb, flow, &match) ? PC_PASS : PC_HOST_NEW;
	}
	if (match.at.ct->state & PC_CT_DENIED && match.at.ct->state & PC_CT_NAT &&
	    side == PC_HOST_OUT && pc_is_without_pods(match.at.ct))
		return PC_DROP_POLICY; /* the policy denied the client's last packet */
	if (!match.is_fresh && match.at.ct->state & PC_CT_NAT)
		return PC_HOST_NAT;
	if (!match.is_fresh) {
		if (!pc_ct_tells_opener(&match))
			flow->opener = PC_OPENER_TRY_BOTH;
		return match.is_reply ? PC_HOST_REPLY : PC_HOST_STALE;
	}
	if (side == PC_HOST_IN && pc_ct_sender(&match)->ifindex)
		return PC_DROP_SPOOFED_IP;
	if (pc_is_without_pods(match.at.ct) && !(match.at.ct->state & PC_CT_NAT)) {
		pc_ct_touch(&match.at, flow, match.is_reply);
		pc_frag_record(flow);
	}
	return PC_PASS;
}

/* An ICMP error about a connection that passes. */
__noinline int pc_host_related(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_quoted quoted = {};

	return flow && flow->packet.fragment != PC_FRAG_LATER && pc_is_icmp_error(flow) &&
	       pc_find_related(skb, flow, PC_BY_OTHERS, &quoted);
}

/* A reply from a failsafe port without an entry: its connection is older than the hooks. */
static __always_inline bool pc_is_failsafe_reply(const struct pc_flow *flow)
{
	return flow->tuple.proto == IPPROTO_TCP && !flow->packet.is_opening &&
	       pc_is_failsafe(flow, PC_FAILSAFE_IN, flow->tuple.sport);
}

/* To loopback: that is the node too, if the host's stack accepts it (route_localnet). */
static __always_inline bool pc_is_to_loopback(const struct pc_flow *flow, enum pc_host_side side)
{
	return side == PC_HOST_IN && pc_addr_is_loopback(flow->tuple.family, &flow->tuple.daddr);
}

/* Whether the node is one end, and what must be decided for it. */
__noinline int pc_host_asks(struct __sk_buff *skb, struct pc_flow *flow, enum pc_host_side side,
			    int known, __u32 state)
{
	if (!flow)
		return PC_DROP_NO_POLICY;
	if (pc_is_to_loopback(flow, side))
		return PC_DROP_SPOOFED_IP;
	pc_endpoints_of(flow);
	if (!pc_has_host_policy(side == PC_HOST_IN ? &flow->dst : &flow->src))
		return PC_PASS;
	if (flow->packet.fragment == PC_FRAG_LATER)
		return pc_frag_first(flow) ? PC_PASS : PC_STEP_REASSEMBLE;
	if (known == PC_HOST_NAT)
		return side == PC_HOST_IN ? PC_DROP_NAT_TAKEN : PC_PASS;
	if (side == PC_HOST_OUT && skb->ingress_ifindex)
		return PC_HOST_ROUTED;
	if (flow->src.id == flow->dst.id)
		return PC_DROP_SPOOFED_IP; /* no uplink leads from the node to itself */
	if (pc_is_between_nodes(flow, side))
		return PC_PASS;
	if (side == PC_HOST_OUT && known == PC_HOST_NEW && pc_is_failsafe_reply(flow))
		return PC_PASS;
	if (known != PC_HOST_NEW)
		flow->action.entry_op = PC_ENTRY_RENEW;
	if (known == PC_HOST_REPLY)
		pc_flow_turn(flow);
	return pc_host_is_asked(skb, flow, side, known != PC_HOST_NEW, state) ? PC_STEP_DECIDE
									      : PC_HOST_OPEN;
}

/* PC_PASS, a reason, or PC_STEP_DECIDE: the policy decides the flow as this function left it. For a
 * failsafe port no policy decides, and the entry holds until the next policy.
 */
static __always_inline int pc_host_decides(struct __sk_buff *skb, struct pc_flow *flow,
					   enum pc_host_side side, __u32 state)
{
	int then = pc_host_known(skb, flow, side);

	if (then >= 0 || pc_host_related(skb, flow))
		return then > 0 ? then : PC_PASS;
	then = pc_host_asks(skb, flow, side, then, state);
	if (then == PC_HOST_ROUTED)
		return pc_host_routed(flow);
	if (then != PC_HOST_OPEN)
		return then;
	if (flow->action.entry_op == PC_ENTRY_RENEW)
		then = pc_external_renew(flow);
	else
		then = pc_external_insert(flow);
	if (!then)
		return PC_DROP_CT_FULL;
	pc_frag_record(flow);
	return PC_PASS;
}

/* A packet that was not parsed must not bypass the host policy. */
__noinline int pc_host_unknown(struct pc_flow *flow, enum pc_host_side side, int reason)
{
	struct pc_endpoint own = {};

	if (!flow || !(pc_generation(flow) & PC_STATE_HOSTS))
		return PC_PASS;
	if (pc_is_to_loopback(flow, side))
		return reason;
	pc_endpoint_at(flow->tuple.family,
		       side == PC_HOST_IN ? &flow->tuple.daddr : &flow->tuple.saddr, &own);
	return pc_has_host_policy(&own) ? reason : PC_PASS;
}
