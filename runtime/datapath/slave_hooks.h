/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* slave_hooks.h - the hooks at ipvlan slaves, where from_pod.h and to_pod.h do the same as at a
 * pod's host-side device. They are not attached: slaves.bpf.c calls them, with the slave's number
 * in cb.
 */
#pragma once
#include "from_pod.h"
#include "hairpin.h"
#include "no_endpoint.h"
#include "pod_marks.h"
#include "service_reject.h"
#include "slave.h"
#include "to_pod.h"

/* tc egress of an ipvlan slave: its pod sends. slaves.bpf.c calls this, and gives the slave's
 * number in cb. The stamp goes along with the packet.
 */
SEC("tc")
int pc_from_slave(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();
	__u32 number = skb->cb[0];
	int mark, step;

	skb->tc_index = number;
	if (!flow)
		return pc_tc_action(PC_DROP_NO_POLICY);
	mark = skb->mark ? pc_pod_mark(skb, PC_SLAVE | number) : PC_MARK_OTHER;
	if (mark != PC_MARK_OTHER)
		return pc_tc_action(mark == PC_MARK_SPOOFED ? PC_DROP_SPOOFED_MARK : PC_PASS);
	step = pc_from_pod_frame(skb, flow, PC_SLAVE | number);
	switch (step) {
	case PC_PASS:
		if (flow->tuple.family)
			step = pc_keep_on_parent(skb, flow);
		break;
	case PC_STEP_REJECT:
		return pc_service_reject(skb, flow);
	case PC_STEP_HAIRPIN:
		return pc_hairpin(skb, flow);
	}
	return pc_finish(flow, step);
}

/* tc ingress of an ipvlan slave: its pod receives. The stamp is removed, as the pod must not send
 * it on.
 */
SEC("tc")
int pc_to_slave(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();
	__u32 number = skb->cb[0], stamp = pc_stamp_of(skb);
	int step;

	skb->tc_index = PC_STAMP_NONE;
	if (!flow)
		return pc_tc_action(PC_DROP_NO_POLICY);
	if (stamp == PC_STAMP_ANSWER)
		return pc_tc_action(PC_PASS);
	step = pc_to_pod_frame(skb, flow, PC_SLAVE | number, stamp);
	if (!step && pc_has_no_endpoint(skb, flow))
		step = PC_DROP_NO_ENDPOINT;
	return pc_finish(flow, step);
}
