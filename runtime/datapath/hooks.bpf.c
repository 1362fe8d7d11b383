/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* hooks.bpf.c - the programs on each pod's host-side veth, on the node's uplinks and on its tunnel;
 * the same for every policy. A packet of a connection that the active policy allowed passes here.
 * Any other packet goes on to the policy program.
 */
#include "reassembly.h"
#include "bypass_slot.h"
#include "first_packet.h"
#include "first_slot.h"
#include "from_reassembly.h"
#include "from_pod.h"
#include "from_tunnel.h"
#include "from_uplink.h"
#include "hairpin.h"
#include "link_forward.h"
#include "no_endpoint.h"
#include "pod_marks.h"
#include "reject.h"
#include "route_back.h"
#include "service_reject.h"
#include "slave_hooks.h"
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
	int mark, step;

	skb->tc_index = PC_STAMP_PASSED; /* for prerouting.bpf.c */
	if (!flow)
		return pc_tc_action(PC_DROP_NO_POLICY);
	mark = skb->mark ? pc_pod_mark(skb, skb->ifindex) : PC_MARK_OTHER;
	if (mark != PC_MARK_OTHER)
		return pc_tc_action(mark == PC_MARK_SPOOFED ? PC_DROP_SPOOFED_MARK : PC_PASS);
	step = pc_from_pod_frame(skb, flow, 0);
	if (!step && flow->action.forward_to & PC_REDIRECTED)
		return TC_ACT_REDIRECT;
	if (!step)
		pc_bypass_offer(skb, flow);
	if (!step && flow->action.forward_to)
		return bpf_redirect_peer(flow->action.forward_to, 0);
	switch (step) {
	case PC_STEP_REJECT:
		return pc_service_reject(skb, flow);
	case PC_STEP_HAIRPIN:
		return pc_hairpin(skb, flow);
	case PC_STEP_ROUTE_BACK:
		return pc_route_back(skb, flow, true);
	case PC_STEP_REASSEMBLE:
		return pc_reassemble(skb, flow, PC_REASM_BY_POD);
	}
	return pc_finish(flow, step);
}

/* Both sides of netkit: passes. A device with the policy "blackhole" drops packets of a side
 * without a program. The hooks of such a device are at its tc ingress and egress, as those of a
 * veth.
 */
SEC("tc")
int pc_netkit(struct __sk_buff *skb __attribute__((unused)))
{
	return TC_ACT_UNSPEC;
}

/* tc egress: a pod receives. */
SEC("tc")
int pc_to_pod(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();
	int step;

	if (!flow)
		return pc_tc_action(PC_DROP_NO_POLICY);
	step = pc_to_pod_frame(skb, flow, 0, 0);
	if (!step && pc_has_no_endpoint(skb, flow))
		step = PC_DROP_NO_ENDPOINT;
	/* Fragments of this node's pods were reassembled at the sender's hook. */
	if (step == PC_STEP_REASSEMBLE && !flow->src.ifindex)
		return pc_reassemble(skb, flow, PC_REASM_TO_POD);
	return pc_finish(flow, step);
}

/* The hook's return value for a packet that is forwarded to another node, a client's by the link if
 * it can. A packet that is too big is answered with flow->action.mtu.
 */
static __always_inline int pc_forward_to_node(struct __sk_buff *skb, struct pc_flow *flow,
					      __u32 network)
{
	int step = network == PC_VNI_REQUEST ? pc_to_node_by_link(skb, flow) : PC_PASS;

	if (!step && flow->action.forward_to)
		return TC_ACT_REDIRECT;
	if (!step)
		step = pc_into_tunnel(skb, flow, network);
	if (step == PC_STEP_TELL_SIZE)
		return pc_reject_answer(skb, flow, pc_finish(flow, step));
	if (step)
		return pc_finish(flow, step);
	return flow->action.forward_to & PC_REDIRECTED ? TC_ACT_REDIRECT
						       : bpf_redirect(flow->action.forward_to, 0);
}

/* tc ingress: an external host sends. */
SEC("tc")
int pc_from_uplink(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();
	int step;

	if (!flow)
		return pc_tc_action(PC_DROP_NO_POLICY);
	step = pc_from_uplink_frame(skb, flow);
	if (!step && flow->action.node && flow->client == PC_CLIENT_EXTERNAL)
		return pc_forward_to_node(skb, flow, PC_VNI_REQUEST);
	if (!step && flow->action.forward_to)
		return bpf_redirect_peer(flow->action.forward_to, 0);
	if (step == PC_STEP_TUNNEL)
		return pc_go_on_from_tunnel(skb, flow);
	if (step == PC_STEP_ROUTE_BACK)
		return pc_route_back(skb, flow, false);
	if (step == PC_STEP_OTHER_UPLINK) {
		skb->mark = PC_FORWARDED_MARK | (flow->action.node & PC_FORWARDED_NODE);
		return bpf_redirect(flow->action.forward_to, BPF_F_INGRESS);
	}
	if (step == PC_STEP_REJECT)
		return pc_reject_answer(skb, flow, pc_finish(flow, step));
	if (flow->packet.fragment && flow->client == PC_CLIENT_EXTERNAL) {
		if (step == PC_STEP_REASSEMBLE)
			return pc_reassemble(skb, flow, PC_REASM_BY_UPLINK);
		/* To no Service: it passes, and so will its later fragments. */
		if (!step && !flow->nat.backend)
			pc_external_seen(flow);
	}
	return pc_finish(flow, step);
}

/* tc egress: the node sends. */
SEC("tc")
int pc_to_uplink(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();
	int step;

	if (!flow)
		return pc_tc_action(PC_DROP_NO_POLICY);
	if (pc_was_routed(skb)) {
		skb->mark = 0;
		return pc_tc_action(PC_PASS);
	}
	step = pc_to_uplink_frame(skb, flow);
	if (step == PC_STEP_TELL_SIZE)
		return pc_tell_endpoint(skb, flow);
	if (!step && flow->action.node)
		return pc_forward_to_node(skb, flow, PC_VNI_REPLY);
	if (!step && flow->client == PC_CLIENT_EXTERNAL) {
		flow->action.forward_to = pc_way_out(skb, flow);
		if (flow->action.forward_to) {
			skb->mark = PC_ROUTED_MARK;
			return bpf_redirect_neigh(flow->action.forward_to, 0, 0, 0);
		}
	}
	return pc_finish(flow, step);
}

/* tc ingress: another node forwards. */
SEC("tc")
int pc_from_tunnel(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();
	int step;

	if (!flow)
		return pc_tc_action(PC_DROP_NO_POLICY);
	step = pc_from_tunnel_frame(skb, flow);
	if (step)
		return pc_finish(flow, step);
	if (flow->client == PC_CLIENT_FORWARDED)
		return bpf_redirect_peer(flow->action.forward_to, 0);
	if (flow->action.node)
		return bpf_redirect_neigh(flow->action.forward_to, 0, 0, 0);
	return bpf_redirect(flow->action.forward_to, BPF_F_INGRESS);
}

/* tc egress: the node itself sends to a Service, and a route of ours led the packet here. Other
 * packets are of link-local protocols. They have no receiver here, and are dropped uncounted.
 */
SEC("tc")
int pc_to_route(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();
	int step;

	if (!flow)
		return pc_tc_action(PC_DROP_NO_POLICY);
	step = pc_to_route_frame(skb, flow);
	if (step == PC_STEP_HAIRPIN)
		return pc_route_itself(skb, flow);
	if (step == PC_STEP_REJECT)
		return pc_reject_answer(skb, flow, pc_finish(flow, step));
	if (step)
		return pc_finish(flow, step);
	return flow->action.forward_to ? bpf_redirect_neigh(flow->action.forward_to, 0, 0, 0)
				       : TC_ACT_SHOT;
}

/* tc ingress: reassembled fragments come back. */
SEC("tc")
int pc_from_reasm(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();
	enum drop_reason reason;

	if (!flow)
		return pc_tc_action(PC_DROP_NO_POLICY);
	reason = pc_from_reassembly_frame(skb, flow);
	return reason ? pc_finish(flow, reason) : pc_come_back(skb, flow);
}

/* The policy program tail-calls this for an allowed packet that opens a connection (first_slot.h).
 */
SEC("tc")
int pc_first(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();
	__u32 to = flow ? pc_forward_first(skb, flow) : 0;

	if (!to)
		return pc_tc_action(PC_PASS);
	return to & PC_REDIRECTED ? TC_ACT_REDIRECT : bpf_redirect_peer(to, 0);
}

/* The policy program tail-calls this if the load enables resets, for a packet in the middle of a
 * connection that the policy denies. Its sender gets an answer, as from a rule that rejects.
 */
SEC("tc")
int pc_resets(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();

	return flow ? pc_reject(skb, flow, TC_ACT_SHOT) : TC_ACT_SHOT;
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
