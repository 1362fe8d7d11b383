/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* policy_run.h - the policy program: decides a flow's ends, records the connection, counts.
 * The generated policy.bpf.c includes it after pc_egress() and pc_ingress(), which return the
 * verdict word of an end. Gives pc_policy_run and its license. The hooks have filled pc_flow, in
 * the direction of the flow's first packet, and made the tail call to here.
 */
#pragma once
#ifdef PC_OWN_NODES
#include "effects.h"
#endif
#include "ct_pre_nat.h"
#include "first_slot.h"
#include "fragments.h"
#include "generation.h"
#include "policy_words.h"
#ifdef PC_LIMITS
#include "limit.h"
#endif
#ifdef PC_LOGS
#include "events.h"
#endif
#ifdef PC_REJECTS
#include "effects.h"
#include "reject.h"
#endif

struct pc_decision {
	bool allowed;
	__u32 egress_rule, ingress_rule; /* 0 for an end that is not of this node */
};

#ifndef PC_IS_COUNTED
#define PC_IS_COUNTED 1
#endif

#if PC_COUNTED_WORDS
struct pc_count {
	__u64 packets;
#if PC_COUNTED_WORDS > 1
	__u64 bytes; /* the packet's, from its Ethernet header on */
#endif
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PC_RULES);
	__type(key, __u32);
	__type(value, struct pc_count);
} pc_counts SEC(".maps");
#endif

/* One map per generation, so that this choice changes with the policy. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32); /* pc_resets if the load enables resets, otherwise empty */
} pc_on_revoked SEC(".maps");

static __always_inline void pc_count(const struct __sk_buff *skb, __u32 rule)
{
#if PC_COUNTED_WORDS
	struct pc_count *count;

	if (!PC_IS_COUNTED)
		return;
	count = bpf_map_lookup_elem(&pc_counts, &rule);
	if (!count)
		return;
	count->packets += 1;
#endif
#if PC_COUNTED_WORDS > 1
	count->bytes += skb->len;
#endif
	(void)skb, (void)rule; /* unused where less is counted */
}

/* Decodes a word. A word that is no verdict, or has an unknown rule, counts as a denial. */
static __always_inline bool pc_word_allows(__u32 word, __u32 *rule)
{
	bool allowed = word & PC_ALLOW;

	*rule = word & PC_ID;
	if (!(word & PC_LEAF) || *rule >= PC_RULES) {
		*rule = PC_RULE_FAIL_CLOSED;
		allowed = false;
	}
	return allowed;
}

static __always_inline bool pc_end_allows(const struct __sk_buff *skb, __u32 word, __u32 *rule)
{
	bool allowed = pc_word_allows(word, rule);

	pc_count(skb, *rule);
	return allowed;
}

/* Whether the pod's own node sends it, and the rule is not an own-node deny (semantics A22). */
static __always_inline bool pc_passes_own_node(const struct pc_flow *flow, __u32 word)
{
#ifdef PC_OWN_NODES
	if (PC_OWN_NODES && flow->opener == PC_OPENER_OWN_NODE)
		return !(word & PC_LEAF) || !pc_effect_of(word & PC_ID, PC_EFFECT_OWN_NODE);
#endif
	(void)flow, (void)word;
	return false;
}

/* Whether the receiving end allows it. */
static __always_inline bool pc_receives(const struct __sk_buff *skb, const struct pc_flow *flow,
					__u32 word, __u32 *rule)
{
	return pc_passes_own_node(flow, word) || pc_end_allows(skb, word, rule);
}

/* Every end of this node must allow it (semantics A4). Egress first: if egress denies a packet, the
 * other end's policy is not evaluated. Without an end of this node no policy decides.
 */
static __always_inline struct pc_decision pc_decide(const struct __sk_buff *skb,
						    const struct pc_flow *flow)
{
	struct pc_decision decision = {.allowed = flow->src.ifindex || flow->dst.ifindex};
	__u32 service = pc_service(flow);

	if (flow->src.id && flow->src.id == flow->dst.id) {
		pc_count(skb, PC_RULE_NOT_ISOLATED); /* a pod cannot block itself (A23) */
		return decision;
	}
	if (flow->src.ifindex)
		decision.allowed =
		    pc_end_allows(skb, pc_egress(flow, service), &decision.egress_rule);
	if (decision.allowed && flow->dst.ifindex)
		decision.allowed =
		    pc_receives(skb, flow, pc_ingress(flow, service), &decision.ingress_rule);
	return decision;
}

/* The opener is unknown, and one of the two directions is allowed: this program decides the other
 * direction, too.
 */
static __always_inline int pc_decide_other(struct __sk_buff *skb, struct pc_flow *flow)
{
	pc_flow_turn(flow);
	flow->opener = PC_OPENER_EITHER;
	bpf_tail_call(skb, &pc_policy, flow->action.policy_slot);
	flow->action.reason = PC_DROP_NO_POLICY;
	return pc_tc_action(PC_DROP_NO_POLICY);
}

/* Denied: no entry is stored. Allowed: the entry is stored before a reply can arrive. */
static __always_inline enum drop_reason pc_conclude(const struct pc_flow *flow,
						    const struct pc_decision *decision)
{
	bool stored;

	if (!decision->allowed) {
		if (flow->action.entry_op == PC_ENTRY_RENEW)
			pc_ct_deny(flow);
		pc_ct_drop_pre_nat(flow);
		return PC_DROP_POLICY;
	}
	if (flow->opener == PC_OPENER_CROSSED && pc_ct_cross(flow))
		stored = true;
	else if (flow->action.entry_op == PC_ENTRY_RENEW)
		stored = pc_ct_renew(flow, decision->egress_rule, decision->ingress_rule) &&
			 pc_ct_put_pre_nat(flow);
	else
		stored = pc_ct_insert_both(flow, decision->egress_rule, decision->ingress_rule);
	if (!stored && !pc_ct_own_node(flow))
		return PC_DROP_CT_FULL;
	pc_frag_record(flow);
	return PC_PASS;
}

/* Whether a denied packet is in the middle of a connection that is known to be revoked. If the
 * policy does not know an end, that end may be a pod that the next policy knows, and allows.
 */
static __always_inline bool pc_is_revoked(const struct pc_flow *flow, __u32 rule)
{
	return pc_has_opening(flow->tuple.proto) && !flow->packet.is_opening &&
	       rule != PC_RULE_FAIL_CLOSED && flow->opener != PC_OPENER_TRY_BOTH &&
	       flow->opener != PC_OPENER_EITHER;
}

/* Counts the drop, and answers it if the denying rule rejects. A packet of a revoked connection is
 * also answered if the load enables resets. An allowed first packet may take the fast path.
 */
static __always_inline int pc_end_of(struct __sk_buff *skb, struct pc_flow *flow,
				     const struct pc_decision *decision)
{
	/* ingress is not evaluated if egress denies */
	__u32 rule = decision->ingress_rule ? decision->ingress_rule : decision->egress_rule;
	int verdict = pc_tc_action(flow->action.reason);

#ifdef PC_REJECTS
	if (PC_REJECTS && !decision->allowed && pc_effect_of(rule, PC_EFFECT_REJECT))
		return pc_reject(skb, flow, verdict);
#endif
	if (!decision->allowed && pc_is_revoked(flow, rule))
		bpf_tail_call(skb, &pc_on_revoked, 0);
	if (decision->allowed && !flow->action.reason)
		pc_first_offer(skb, flow);
	return verdict;
}

/* Before the packet becomes an answer. */
static __always_inline void pc_tell(const struct pc_flow *flow, const struct pc_decision *decision)
{
#ifdef PC_LOGS
	if (PC_LOGS)
		pc_log(flow, decision->egress_rule, decision->ingress_rule, decision->allowed);
#endif
	(void)flow, (void)decision; /* used where rules have effects */
}

SEC("tc")
int pc_policy_run(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();
	struct pc_decision decision;

	if (!flow)
		return pc_tc_action(PC_DROP_NO_POLICY);
	decision = pc_decide(skb, flow);
	if (flow->opener == PC_OPENER_TRY_BOTH && decision.allowed)
		return pc_decide_other(skb, flow);
#ifdef PC_LIMITS
	if (PC_LIMITS && decision.allowed &&
	    pc_is_limited(flow, decision.egress_rule, decision.ingress_rule)) {
		pc_ct_drop_pre_nat(flow);
		flow->action.reason = PC_DROP_LIMIT;
		pc_tell(flow, &decision);
		return pc_tc_action(PC_DROP_LIMIT);
	}
#endif
	flow->action.reason = pc_conclude(flow, &decision);
	pc_tell(flow, &decision);
	return pc_end_of(skb, flow, &decision);
}

#ifdef PC_AT_SOCKETS
#include "policy_connect.h"
#include "policy_bypass.h"
#endif

char pc_license[] SEC("license") = "Dual BSD/GPL";
