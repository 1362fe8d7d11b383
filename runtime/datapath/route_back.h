/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* route_back.h - replies of Services to the node itself, in connections that used a route
 * (to_route.h). Gives pc_route_back() for the end of from_pod and from_uplink, which find the entry
 * of such a connection.
 */
#pragma once
#include "nat_hooks.h"
#include "external_map.h"
#include "related.h"
#include "route_map.h"

/* From the pod behind this device, or at an uplink from outside this node. To the node. */
__noinline int pc_route_sender(struct pc_flow *flow, bool by_pod)
{
	int reason = PC_PASS;

	if (!flow)
		return PC_DROP_NO_ENDPOINT;
	pc_endpoints_of(flow);
	if (by_pod)
		reason = pc_check_sender(flow);
	else if (flow->src.ifindex || pc_is_own_node(flow->tuple.family, &flow->tuple.saddr))
		return PC_DROP_SPOOFED_IP;
	if (reason)
		return reason;
	return flow->dst.ifindex || !pc_is_own_node(flow->tuple.family, &flow->tuple.daddr)
		   ? PC_DROP_BACKEND_GONE
		   : PC_PASS;
}

/* Looks the entry up again: the 6.1 verifier rejects map writes through a pointer argument. */
__noinline int pc_route_answer(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_backend *backend;
	struct pc_ct_at at;

	if (!flow)
		return PC_DROP_BACKEND_GONE;
	at = pc_ct_get(&flow->tuple, true);
	if (!at.ct || !pc_is_routed(at.ct) || at.back == at.ct->back)
		return PC_DROP_BACKEND_GONE;
	backend = pc_nat_backend(at.ct->dst.nat.backend, flow->tuple.proto);
	if (!backend)
		return PC_DROP_BACKEND_GONE;
	if (pc_ct_note(at.ct, flow, true))
		pc_pre_nat_note(flow, at.ct, backend, &backend->frontend);
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	if (pc_nat_addr(skb, flow, PC_NAT_SRC, &flow->tuple.saddr, &backend->frontend) &&
	    pc_nat_port(skb, flow, PC_NAT_SRC, flow->tuple.sport, backend->frontend_port) &&
	    pc_nat_port(skb, flow, PC_NAT_DST, flow->tuple.dport, at.ct->dst.nat.port))
		return PC_PASS;
	return PC_DROP_MALFORMED;
}

/* The hook's return value. Later fragments would have to come in here too: all are dropped. */
__noinline int pc_route_back(struct __sk_buff *skb, struct pc_flow *flow, bool by_pod)
{
	int reason;

	if (!flow)
		return pc_tc_action(PC_DROP_NODE_ANSWER);
	reason = pc_route_sender(flow, by_pod);
	if (!reason && flow->packet.fragment)
		reason = PC_DROP_NODE_ANSWER;
	if (!reason && !pc_is_icmp_error(flow)) /* pc_error() has translated those */
		reason = pc_route_answer(skb, flow);
	flow->action.reason = reason;
	return reason ? pc_tc_action(reason) : pc_route_in(skb);
}
