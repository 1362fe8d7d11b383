/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* from_tunnel.h - a packet that another node forwarded: a client's packet to an endpoint of this
 * node, or the reply to a client that came to this node. Only nodes of the cluster are believed.
 * The client's packet is redirected to the endpoint; on the stack path it continues as if it came
 * in by the device that leads to the client, so the stack sees it where it expects it. The reply
 * leaves without the host's stack, which accepts no packet from outside with the node's own
 * address.
 */
#pragma once
#include "device_to.h"
#include "nat_icmp.h"
#include "external.h"
#include "parse.h"
#include "tunnel.h"

/* This node waits for the reply, and the reply comes from the node that this node asked. */
static __always_inline enum drop_reason pc_is_awaited(struct __sk_buff *skb, struct pc_flow *flow,
						      __u32 sender)
{
	const struct pc_frag *first;
	struct pc_ct_match match;
	int error;

	if (flow->packet.fragment == PC_FRAG_LATER) {
		flow->action.node = sender;
		first = pc_frag_first(flow);
		return first && pc_is_same_node(first->node, sender) ? PC_PASS : PC_DROP_FRAGMENT;
	}
	if (pc_is_icmp_error(flow)) {
		error = pc_error(skb, flow, PC_BY_EXTERNAL);
		return !error && pc_is_same_node(flow->action.node, sender) ? PC_PASS
									    : PC_DROP_BACKEND_GONE;
	}
	match = pc_ct_find(flow);
	if (!match.at.ct || !(match.at.ct->state & PC_CT_OTHER_NODE) || !match.is_reply)
		return PC_DROP_BACKEND_GONE;
	if (!pc_is_same_node(pc_ct_node(match.at.ct), sender))
		return PC_DROP_NOT_A_NODE;
	flow->action.node = sender;
	pc_ct_touch(&match.at, flow, true);
	pc_frag_record(flow);
	return PC_PASS;
}

/* As pc_device_to() at the VXLAN device, also if the hook of an uplink has called this one. */
static __always_inline __u32 pc_from_vxlan(struct __sk_buff *skb, struct pc_flow *flow, bool back)
{
	const struct pc_external *external = pc_external_now();

	return external ? pc_device_from(skb, flow, external->tunnel, back) : 0;
}

static __always_inline enum drop_reason pc_tunnel_reply(struct __sk_buff *skb, struct pc_flow *flow,
							__u32 sender)
{
	enum drop_reason reason = pc_is_awaited(skb, flow, sender);

	if (reason)
		return reason;
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	flow->action.forward_to = pc_from_vxlan(skb, flow, false);
	return flow->action.forward_to ? pc_take_hop(skb, flow) : PC_DROP_NO_ROUTE;
}

/* A node forwards packets to one of its own addresses, or to an address that no node has. */
static __always_inline __u32 pc_came_to(const struct pc_flow *flow, __u32 sender)
{
	const __u32 *to = pc_node_at(flow->tuple.family, &flow->tuple.daddr);

	if (!to)
		return sender;
	return pc_is_same_node(*to, sender) ? *to : 0;
}

/* The uplink that leads to the client, or else the first one: only uplinks have the next hook.
 */
static __always_inline __u32 pc_uplink_to(struct __sk_buff *skb, struct pc_flow *flow)
{
	__u32 device = pc_from_vxlan(skb, flow, true);
	const struct pc_external *external = pc_external_now();

	if (!device || !external)
		return 0;
	return pc_is_uplink(external, device) ? device : external->uplink[0];
}

static __always_inline int pc_tunnel_request(struct __sk_buff *skb, struct pc_flow *flow,
					     __u32 sender)
{
	__u32 to = pc_came_to(flow, sender);
	int step;

	if (!to)
		return PC_DROP_NOT_A_NODE;
	flow->action.node = to;
	if (!flow->packet.fragment && !pc_is_icmp_error(flow)) {
		bpf_skb_change_type(skb, PACKET_HOST);
		step = pc_external_direct(skb, flow);
		if (step != PC_STEP_OTHER) {
			flow->client = PC_CLIENT_FORWARDED;
			return step;
		}
	}
	flow->action.node = 0;
	if (pc_check_external(flow))
		return PC_DROP_SPOOFED_IP;
	flow->action.forward_to = pc_uplink_to(skb, flow);
	skb->mark = PC_FORWARDED_MARK | (to & PC_FORWARDED_NODE);
	return flow->action.forward_to ? PC_PASS : PC_DROP_NO_ROUTE;
}

/* Sets forward_to. For a reply: the device that it leaves by. For a client's packet: the endpoint's
 * device, and flow->client; or, with a mark, the device that it comes in by.
 */
static __always_inline int pc_from_tunnel_frame(struct __sk_buff *skb, struct pc_flow *flow)
{
	enum drop_reason reason = pc_parse(skb, flow);
	__u32 network = 0, sender = pc_tunnel_sender(skb, &network);

	if (!sender)
		return PC_DROP_NOT_A_NODE;
	if (reason)
		return reason;
	if (!flow->tuple.family)
		return PC_DROP_ETHERTYPE;
	if (!(pc_generation(flow) & PC_STATE_SERVICES))
		return PC_DROP_NO_BACKEND;
	if (network == PC_VNI_REPLY)
		return pc_tunnel_reply(skb, flow, sender);
	return network == PC_VNI_REQUEST ? pc_tunnel_request(skb, flow, sender)
					 : PC_DROP_NOT_A_NODE;
}
