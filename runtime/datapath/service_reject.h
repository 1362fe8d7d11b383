/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* service_reject.h - answers a packet to a Service without endpoints, as kube-proxy's REJECT does:
 * a reset, or ICMP "port unreachable". Gives pc_service_reject() for a hook's end. A separate
 * function, as the hooks' stacks are full.
 */
#pragma once
#include "answerable.h"
#include "route_map.h"
#include "sender.h"
#include "service_map.h"

/* The packet's sender was not checked yet, as it has no connection. */
__noinline int pc_reject_check_sender(struct pc_flow *flow)
{
	if (!flow)
		return PC_DROP_NO_ENDPOINT;
	pc_endpoints_of(flow);
	return pc_check_sender(flow);
}

/* Makes the frame the answer to its sender; returns `dropped` if there is no answer. */
__noinline int pc_reject_answer(struct __sk_buff *skb, const struct pc_flow *flow, int dropped)
{
	struct pc_answers *answers;
	__u8 code;

	if (!flow || !pc_may_be_answered(skb, flow))
		return dropped;
	answers = pc_answer_due();
	code = flow->tuple.family == PC_IPV4 ? PC_ICMP_NO_PORT : PC_ICMP6_NO_PORT;
	if (!answers || !pc_answer(skb, flow, code))
		return dropped;
	answers->sent += 1;
	if (flow->client == PC_CLIENT_NODE)
		return pc_route_in(skb);
	return flow->client == PC_CLIENT_POD ? pc_return(skb, flow) : pc_return_external(skb, flow);
}

/* The return value of a pod's hook for a packet of that pod. Answered or not, it counts as dropped.
 */
static __always_inline int pc_service_reject(struct __sk_buff *skb, struct pc_flow *flow)
{
	enum drop_reason spoofed = pc_reject_check_sender(flow);

	if (spoofed) {
		flow->action.reason = spoofed;
		return pc_tc_action(spoofed);
	}
	return pc_reject_answer(skb, flow, pc_tc_action(PC_DROP_NO_BACKEND));
}
