/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* to_route.h - the node's own packets to Services that no socket hook has translated: SCTP, raw
 * sockets, the kernel's own, processes outside the cgroup. Routes lead them to a device of ours.
 *
 * A packet is translated like a pod's, and leaves by the device that leads to the endpoint, with
 * its socket and without an ingress device. So to_pod takes it for the node's own, which no policy
 * decides (semantics A22). Replies come back by route_back.h. Why:
 * docs/decisions/0037-the-nodes-route-to-services.md
 */
#pragma once
#include "device_to.h"
#include "hairpin.h"
#include "nat_hooks.h"
#include "nat_icmp.h"
#include "neighbour.h"
#include "parse.h"
#include "related.h"
#include "route_map.h"

/* Stores the entries of a new connection, under the translated tuple. */
__noinline int pc_route_open(struct pc_flow *flow)
{
	struct pc_ct *ct;

	if (!flow)
		return PC_DROP_CT_FULL;
	pc_endpoints_of(flow);
	ct = pc_ct_of(flow, 0, 0, PC_CT_NODE);
	if (!ct || !pc_ct_put(flow, &flow->tuple, ct, flow->has_established_entry) ||
	    !pc_ct_add_pre_nat(flow, ct))
		return PC_DROP_CT_FULL;
	return PC_PASS;
}

__noinline int pc_route_new(struct __sk_buff *skb, struct pc_flow *flow, __u32 state)
{
	int reason;

	if (!flow)
		return PC_DROP_NO_BACKEND;
	reason = pc_service_pick(flow, state);
	if (reason)
		return reason;
	if (!flow->nat.backend)
		return PC_DROP_NO_BACKEND;
	reason = pc_nat_to_backend(skb, flow);
	return reason ? reason : pc_route_open(flow);
}

/* The policy changed, or the endpoint is behind another device: no policy decides it. */
static __always_inline bool pc_route_renew(const struct pc_flow *flow, struct pc_ct *pre_nat)
{
	struct pc_ct *back = pc_ct_get(&flow->tuple, true).ct;

	if (!back || back->expires <= flow->now || back->flow_id != pre_nat->flow_id)
		return false;
	pc_ct_renew_node(back, flow);
	pc_ct_note(back, flow, false);
	pre_nat->epoch = flow->epoch;
	pc_ct_note(pre_nat, flow, false);
	return true;
}

/* A packet with a pre-NAT entry; without one of this kind the connection is new. */
__noinline int pc_route_known(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_backend *backend;
	struct pc_ct_match match;
	enum pc_pre_nat pre_nat;
	struct pc_ct *ct;

	if (!flow)
		return PC_DROP_NO_BACKEND;
	match = pc_ct_find(flow);
	ct = match.at.ct;
	if (!ct || match.is_reply || !(ct->state & PC_CT_PRE_NAT) || !pc_is_routed(ct))
		return PC_STEP_NEW;
	backend = pc_nat_backend(ct->src.nat.backend, flow->tuple.proto);
	if (!backend)
		return PC_STEP_NEW;
	if (pc_addr_eq(&backend->addr, &flow->tuple.saddr))
		return PC_STEP_HAIRPIN;
	match.is_fresh = ct->epoch == flow->epoch;
	pc_tuple_translate(flow, backend, ct->src.nat.backend, ct->src.nat.port);
	pc_endpoints_of(flow);
	pre_nat = pc_pre_nat_touch(flow, &match, backend);
	if (pre_nat == PC_PRE_NAT_WITHOUT_POST ||
	    (pre_nat == PC_PRE_NAT_STALE && !pc_route_renew(flow, ct))) {
		pc_tuple_pre_nat(&flow->tuple, &flow->nat);
		flow->nat.backend = 0;
		flow->has_established_entry = match.at.is_established;
		return PC_STEP_NEW;
	}
	return pc_nat_to_backend(skb, flow);
}

/* The endpoint's own device, or an uplink: no other device translates replies. */
__noinline int pc_route_device(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_external *external = pc_external_now();
	__u32 device;

	if (!flow || !external)
		return PC_DROP_NO_ROUTE;
	device = flow->dst.ifindex;
	if (device & PC_SLAVE)
		return PC_DROP_NO_ROUTE;
	if (!device) {
		device = pc_device_to(skb, flow, false);
		if (!pc_is_uplink(external, device))
			return PC_DROP_NO_ROUTE;
	}
	flow->action.forward_to = device;
	return PC_PASS;
}

/* The node's stack reports an error about a Service's reply: it goes to the endpoint that sent it.
 */
static __always_inline int pc_route_error(struct __sk_buff *skb, struct pc_flow *flow)
{
	int error = pc_error(skb, flow, PC_BY_NODE);

	if (error)
		return error == PC_STEP_OTHER ? PC_DROP_UNRELATED : error;
	pc_endpoints_of(flow);
	return pc_route_device(skb, flow);
}

/* The packet's source must be an address to which replies come back. */
static __always_inline int pc_to_route_ip(struct __sk_buff *skb, struct pc_flow *flow)
{
	__u32 state = pc_generation(flow);
	int then;

	if (skb->ingress_ifindex || !(state & PC_STATE_SERVICES))
		return PC_DROP_NO_BACKEND; /* the hook of the pod or of the uplink found no Service
					    */
	if (state & PC_STATE_HOSTS)
		return PC_DROP_NO_POLICY; /* the node's policy has not decided that endpoint */
	if (flow->packet.fragment)
		return PC_DROP_FRAGMENT;
	if (!pc_l4_header(&flow->tuple) || (pc_is_icmp(&flow->tuple) && !pc_is_icmp_error(flow)))
		return PC_DROP_NO_BACKEND;
	if (!pc_is_own_node(flow->tuple.family, &flow->tuple.saddr))
		return PC_DROP_SPOOFED_IP;
	flow->client = PC_CLIENT_NODE;
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	if (flow->packet.csum_partial == PC_PARTIAL_INVALID)
		return PC_DROP_MALFORMED;
	if (pc_is_icmp_error(flow))
		return pc_route_error(skb, flow);
	if (pc_is_hairpin(&flow->tuple.daddr, flow->tuple.family))
		return PC_STEP_HAIRPIN;
	then = pc_route_known(skb, flow);
	if (then == PC_STEP_NEW)
		then = pc_route_new(skb, flow, state);
	return then ? then : pc_route_device(skb, flow);
}

/* Sets forward_to, unless the packet is dropped, or is a link-local protocol's. */
static __always_inline int pc_to_route_frame(struct __sk_buff *skb, struct pc_flow *flow)
{
	enum drop_reason reason = pc_parse(skb, flow);

	if (reason)
		return reason;
	if (!flow->tuple.family || pc_is_nd(flow) || pc_is_mld(flow))
		return PC_PASS;
	return pc_to_route_ip(skb, flow);
}

/* The hook's return value if the node itself is the chosen endpoint, or replies itself. */
static __always_inline int pc_route_itself(struct __sk_buff *skb, struct pc_flow *flow)
{
	flow->action.reason = pc_hairpin_turn(skb, flow);
	return flow->action.reason ? pc_tc_action(flow->action.reason) : pc_route_in(skb);
}
