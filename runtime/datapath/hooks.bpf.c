/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* hooks.bpf.c - the programs on each pod's host-side veth; the same for every policy.
 * A connection that is known and decided passes here; any other goes on to the policy program.
 */
#include "from_pod.h"
#include "hairpin.h"
#include "to_pod.h"

/* tc ingress: the pod sends. */
SEC("tc")
int pc_from_pod(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();

	if (!flow)
		return pc_verdict(PC_DROP_NO_POLICY);
	flow->reason = pc_from_pod_frame(skb, flow);
	if (flow->forward_to)
		return bpf_redirect_peer(flow->forward_to, 0);
	if (flow->reason == PC_DROP_NO_BACKEND && flow->is_refused)
		return pc_service_refuse(skb, flow);
	if (flow->reason == PC_DROP_HAIRPIN)
		return pc_hairpin(skb, flow);
	return pc_verdict(flow->reason);
}

/* tc egress: the pod is sent to. */
SEC("tc")
int pc_to_pod(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();

	if (!flow)
		return pc_verdict(PC_DROP_NO_POLICY);
	flow->reason = pc_to_pod_frame(skb, flow);
	return pc_verdict(flow->reason);
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
