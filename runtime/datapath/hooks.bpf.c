/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* hooks.bpf.c - the programs on each pod's host-side veth, on the node's uplinks and on its tunnel;
 * the same for every policy. A packet of a known and decided connection passes here. Any other
 * packet goes on to the policy program.
 */
#include "detour.h"
#include "from_detour.h"
#include "from_pod.h"
#include "from_tunnel.h"
#include "from_uplink.h"
#include "hairpin.h"
#include "no_endpoint.h"
#include "pod_marks.h"
#include "reject.h"
#include "route_back.h"
#include "service_refuse.h"
#include "to_pod.h"
#include "to_route.h"
#include "to_uplink.h"
#include "tunnel.h"
#include "way_out.h"

/* tc ingress: a pod sends. */
SEC("tc")
int pc_from_pod(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();
	int mark;

	if (!flow)
		return pc_verdict(PC_DROP_NO_POLICY);
	mark = skb->mark ? pc_pod_mark(skb) : PC_MARK_OTHER;
	if (mark != PC_MARK_OTHER)
		return pc_verdict(mark == PC_MARK_SPOOFED ? PC_DROP_SPOOFED_MARK : PC_PASS);
	flow->reason = pc_from_pod_frame(skb, flow);
	if (flow->forward_to & PC_SENT)
		return TC_ACT_REDIRECT;
	if (flow->forward_to)
		return bpf_redirect_peer(flow->forward_to, 0);
	if (flow->reason == PC_DROP_NO_BACKEND && flow->is_refused)
		return pc_service_refuse(skb, flow);
	if (flow->reason == PC_DROP_HAIRPIN)
		return pc_hairpin(skb, flow);
	if (flow->reason == PC_DROP_NODE_ANSWER)
		return pc_route_back(skb, flow, true);
	if (flow->reason == PC_DROP_FRAGMENT)
		return pc_detour(skb, flow, PC_DETOUR_BY_POD);
	return pc_verdict(flow->reason);
}

/* tc egress: a pod receives. */
SEC("tc")
int pc_to_pod(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();

	if (!flow)
		return pc_verdict(PC_DROP_NO_POLICY);
	flow->reason = pc_to_pod_frame(skb, flow);
	if (!flow->reason && pc_has_no_endpoint(skb, flow))
		flow->reason = PC_DROP_NO_ENDPOINT;
	/* Fragments of this node's pods were reassembled at the sender's hook. */
	if (flow->reason == PC_DROP_FRAGMENT && !flow->src.ifindex)
		return pc_detour(skb, flow, PC_DETOUR_TO_POD);
	return pc_verdict(flow->reason);
}

/* The hook's return value for a packet that is forwarded to another node. */
static __always_inline int pc_hand_over(struct __sk_buff *skb, struct pc_flow *flow, __u32 network)
{
	flow->reason = pc_into_tunnel(skb, flow, network);
	if (flow->reason == PC_DROP_TOO_BIG)
		return pc_refused_answer(skb, flow, pc_verdict(PC_DROP_TOO_BIG));
	return flow->reason ? pc_verdict(flow->reason) : bpf_redirect(flow->forward_to, 0);
}

/* tc ingress: an external host sends. */
SEC("tc")
int pc_from_uplink(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();

	if (!flow)
		return pc_verdict(PC_DROP_NO_POLICY);
	flow->reason = pc_from_uplink_frame(skb, flow);
	if (!flow->reason && flow->node && flow->client == PC_CLIENT_EXTERNAL)
		return pc_hand_over(skb, flow, PC_VNI_REQUEST);
	if (!flow->reason && flow->forward_to)
		return bpf_redirect_peer(flow->forward_to, 0);
	if (flow->reason == PC_DROP_NODE_ANSWER)
		return pc_route_back(skb, flow, false);
	if (flow->is_refused)
		return pc_refused_answer(skb, flow, pc_verdict(PC_DROP_NO_BACKEND));
	if (flow->fragment && flow->client == PC_CLIENT_EXTERNAL) {
		if (flow->reason == PC_DROP_FRAGMENT)
			return pc_detour(skb, flow, PC_DETOUR_BY_UPLINK);
		if (!flow->reason && !flow->nat.backend)
			pc_external_seen(flow);
	}
	return pc_verdict(flow->reason);
}

/* tc egress: the node sends. */
SEC("tc")
int pc_to_uplink(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();

	if (!flow)
		return pc_verdict(PC_DROP_NO_POLICY);
	if (pc_was_routed(skb)) {
		skb->mark = 0;
		return pc_verdict(PC_PASS);
	}
	flow->reason = pc_to_uplink_frame(skb, flow);
	if (flow->reason == PC_DROP_TOO_BIG)
		return pc_tell_endpoint(skb, flow);
	if (!flow->reason && flow->node)
		return pc_hand_over(skb, flow, PC_VNI_ANSWER);
	if (!flow->reason && flow->client == PC_CLIENT_EXTERNAL) {
		flow->forward_to = pc_way_out(skb, flow);
		if (flow->forward_to) {
			skb->mark = PC_ROUTED_MARK;
			return bpf_redirect_neigh(flow->forward_to, 0, 0, 0);
		}
	}
	return pc_verdict(flow->reason);
}

/* tc ingress: another node forwards. */
SEC("tc")
int pc_from_tunnel(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();

	if (!flow)
		return pc_verdict(PC_DROP_NO_POLICY);
	flow->reason = pc_from_tunnel_frame(skb, flow);
	if (flow->reason)
		return pc_verdict(flow->reason);
	if (flow->node)
		return bpf_redirect_neigh(flow->forward_to, 0, 0, 0);
	return bpf_redirect(flow->forward_to, BPF_F_INGRESS);
}

/* tc egress: the node itself sends to a Service, and a route of ours led the packet here. A packet
 * that is neither dropped nor redirected is a link-local protocol's, which has no receiver here.
 */
SEC("tc")
int pc_to_route(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();

	if (!flow)
		return pc_verdict(PC_DROP_NO_POLICY);
	flow->reason = pc_to_route_frame(skb, flow);
	if (flow->reason == PC_DROP_HAIRPIN)
		return pc_route_itself(skb, flow);
	if (flow->is_refused)
		return pc_refused_answer(skb, flow, pc_verdict(PC_DROP_NO_BACKEND));
	if (flow->reason)
		return pc_verdict(flow->reason);
	return flow->forward_to ? bpf_redirect_neigh(flow->forward_to, 0, 0, 0) : TC_ACT_SHOT;
}

/* tc ingress: reassembled fragments come back. */
SEC("tc")
int pc_from_detour(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();

	if (!flow)
		return pc_verdict(PC_DROP_NO_POLICY);
	flow->reason = pc_from_detour_frame(skb, flow);
	return flow->reason ? pc_verdict(flow->reason) : pc_come_back(skb, flow);
}

/* From the policy program, if the load enables resets: a packet in the middle of a connection that
 * the policy denies. Its sender is told, as by a rule that rejects.
 */
SEC("tc")
int pc_resets(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();

	return flow ? pc_reject(skb, flow, TC_ACT_SHOT) : TC_ACT_SHOT;
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
