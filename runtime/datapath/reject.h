/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* reject.h - whether a packet that a rule rejects is answered, and which path the answer takes.
 * Gives pc_reject().
 */
#pragma once
#include "answerable.h"
#include "ct_pre_nat.h"
#include "nat.h"

static __always_inline bool pc_is_sent_by_pod(const struct pc_flow *flow)
{
	return (flow->is_reply ? flow->dst.ifindex : flow->src.ifindex) == flow->device;
}

/* A pod's own packet is answered to the pod at once. The answer to a packet for a pod looks like
 * the pod's, and goes through the host, which may have to translate addresses back. An external
 * client whose packet is rejected at the uplink is answered there, from the Service.
 */
static __always_inline int pc_send_back(struct __sk_buff *skb, const struct pc_flow *flow)
{
	if (pc_is_sent_by_pod(flow))
		return pc_return(skb, flow);
	if (!pc_is_at_slave(flow) && skb->ingress_ifindex == skb->ifindex)
		return pc_return_external(skb, flow); /* rejected at the uplink */
	return pc_return_routed(skb, flow);
}

/* A packet to a Service is answered as the client sent it. The tuple of an endpoint's answer was
 * never translated.
 */
static __always_inline bool pc_untranslate(struct __sk_buff *skb, struct pc_flow *flow)
{
	if (!flow->nat.backend || flow->action.frag_backend & PC_FRAG_REPLY)
		return true;
	if (!pc_nat_addr(skb, flow, PC_NAT_DST, &flow->tuple.daddr, &flow->nat.daddr) ||
	    !pc_nat_port(skb, flow, PC_NAT_DST, flow->tuple.dport, flow->nat.dport) ||
	    !pc_nat_port(skb, flow, PC_NAT_SRC, flow->tuple.sport, flow->nat.sport))
		return false;
	pc_tuple_pre_nat(&flow->tuple, &flow->nat);
	return true;
}

/* A SYN against a connection of the other direction (RFC 9293, 3.10.7.4: no reset). The answer
 * would count as a packet of that connection, and end its entry.
 */
static __always_inline bool pc_meets_another(const struct pc_flow *flow)
{
	struct pc_ct_at at;

	if (flow->tuple.proto != IPPROTO_TCP || flow->action.entry_op != PC_ENTRY_INSERT)
		return false;
	at = pc_ct_get(&flow->tuple, true);
	return at.ct && at.ct->expires > flow->now && at.ct->back != at.back;
}

/* The hook's return value for a packet that a rule rejects: `dropped` if no answer is sent. */
static __always_inline int pc_reject(struct __sk_buff *skb, struct pc_flow *flow, int dropped)
{
	__u8 code = flow->tuple.family == PC_IPV4 ? PC_ICMP_PROHIBITED : PC_ICMP6_PROHIBITED;
	struct pc_answers *answers;

	if (!pc_may_be_answered(skb, flow) || pc_meets_another(flow))
		return dropped;
	answers = pc_answer_due();
	if (!answers || !pc_untranslate(skb, flow) || !pc_answer(skb, flow, code))
		return dropped;
	answers->sent += 1;
	return pc_send_back(skb, flow);
}
