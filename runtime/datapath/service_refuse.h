/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* service_refuse.h - a Service without an endpoint refuses, as kube-proxy's REJECT does: a reset,
 * or ICMP "port unreachable". Gives pc_service_refuse() for a hook's end. A separate function, as
 * the hooks' stacks are full.
 */
#pragma once
#include "answerable.h"
#include "route_map.h"
#include "sender.h"
#include "service_map.h"

/* The packet's sender was not checked yet, as it has no connection. */
__noinline int pc_refused_sender(struct __sk_buff *skb, struct pc_flow *flow)
{
	if (!flow)
		return PC_DROP_NO_ENDPOINT;
	pc_endpoints_of(flow);
	return pc_sender_is_pod(skb, flow);
}

/* Makes the frame the answer to its sender; returns `dropped` if there is no answer. */
__noinline int pc_refused_answer(struct __sk_buff *skb, const struct pc_flow *flow, int dropped)
{
	struct pc_answers *answers;
	__u8 code;

	if (!flow || !pc_may_be_answered(skb, flow))
		return dropped;
	answers = pc_answer_due();
	code = flow->t.family == PC_IPV4 ? PC_ICMP_NO_PORT : PC_ICMP6_NO_PORT;
	if (!answers || !pc_answer(skb, flow, code))
		return dropped;
	answers->sent += 1;
	if (flow->client == PC_CLIENT_NODE)
		return pc_route_in(skb);
	return flow->client == PC_CLIENT_POD ? pc_return(skb) : pc_return_external(skb, flow);
}

/* The return value of a pod's hook for a packet of that pod. Answered or not, it counts as dropped.
 */
static __always_inline int pc_service_refuse(struct __sk_buff *skb, struct pc_flow *flow)
{
	enum drop_reason spoofed = pc_refused_sender(skb, flow);

	if (spoofed) {
		flow->action.reason = spoofed;
		return pc_verdict(spoofed);
	}
	return pc_refused_answer(skb, flow, pc_verdict(PC_DROP_NO_BACKEND));
}
