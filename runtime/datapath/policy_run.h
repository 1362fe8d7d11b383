/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* policy_run.h - the policy program: decides a flow's ends, remembers the connection, counts.
 * Included by the generated policy.bpf.c after its code. Gives pc_policy_run and its license.
 * The hooks have filled pc_flow, in the direction of the flow's first packet, and tail called here.
 */
#pragma once
#include "ct.h"
#include "fragments.h"
#include "policy_maps.h"

struct pc_decision {
	bool allowed;
	__u32 egress_rule, ingress_rule; /* 0 for an end that is not of this node */
};

/* Rule ids index pc_counts; one that does not is not believed. */
static __always_inline __u32 pc_rule(__u32 diagram, __u32 service)
{
	__u32 leaf = pc_table_leaf(diagram, service);

	return leaf < PC_RULES ? leaf : PC_RULE_FAIL_CLOSED;
}

static __always_inline void pc_count(__u32 rule)
{
	__u64 *count = bpf_map_lookup_elem(&pc_counts, &rule);

	if (count)
		*count += 1;
}

/* The class of a pod; what the loader has not placed is row 0 and column 0. */
static __always_inline struct pc_class pc_class_of(__u32 id)
{
	struct pc_class *class = bpf_map_lookup_elem(&pc_class, &id);

	return class ? *class : (struct pc_class)
	{
	};
}

/* The column of a peer: of its class if it is a pod, else of its address. */
static __always_inline __u32 pc_peer(const struct pc_endpoint *peer, const struct pc_addr6 *address,
				     __u8 family)
{
	struct pc_class class;

	if (peer->id) {
		class = pc_class_of(peer->id);
		return family == PC_IPV4 ? class.column4 : class.column6;
	}
	return family == PC_IPV4 ? pc_column4(address->word[0]) : pc_column6(address);
}

/* One end's answer, from its cells of the direction. */
static __always_inline bool pc_decide_end(void *cells, __u32 row, __u32 column, __u32 service,
					  __u32 *rule)
{
	struct pc_cell *cell;
	__u32 index;
	bool allowed;

	*rule = PC_RULE_FAIL_CLOSED;
	if (row >= PC_ROWS || column >= PC_COLUMNS)
		return false;
	index = row * PC_COLUMNS + column;
	cell = bpf_map_lookup_elem(cells, &index);
	if (!cell)
		return false;
	allowed = pc_action(cell->action, service) == PC_LEAF_ALLOW;
	*rule = pc_rule(cell->rule, service);
	return allowed && *rule != PC_RULE_FAIL_CLOSED;
}

static __always_inline bool pc_decide_egress(const struct pc_flow *flow, __u32 service, __u32 *rule)
{
	bool allowed =
	    pc_decide_end(&pc_cell_eg, pc_class_of(flow->src.id).row,
			  pc_peer(&flow->dst, &flow->t.daddr, flow->t.family), service, rule);

	pc_count(*rule);
	return allowed;
}

static __always_inline bool pc_decide_ingress(const struct pc_flow *flow, __u32 service,
					      __u32 *rule)
{
	bool allowed =
	    pc_decide_end(&pc_cell_in, pc_class_of(flow->dst.id).row,
			  pc_peer(&flow->src, &flow->t.saddr, flow->t.family), service, rule);

	pc_count(*rule);
	return allowed;
}

/* Every end of this node must allow it (semantics A4). Egress first: a packet that may not leave
 * never meets the other end's policy. Without an end of this node there is nobody to ask.
 */
static __always_inline struct pc_decision pc_decide(const struct pc_flow *flow)
{
	struct pc_decision decision = {.allowed = flow->src.ifindex || flow->dst.ifindex};
	__u32 service = pc_service(flow);

	if (flow->src.id && flow->src.id == flow->dst.id) {
		pc_count(PC_RULE_NOT_ISOLATED); /* a pod cannot block itself (A23) */
		return decision;
	}
	if (flow->src.ifindex)
		decision.allowed = pc_decide_egress(flow, service, &decision.egress_rule);
	if (decision.allowed && flow->dst.ifindex)
		decision.allowed = pc_decide_ingress(flow, service, &decision.ingress_rule);
	return decision;
}

/* Denied: no entry is made. Allowed: the connection is there before its reply can be. */
static __always_inline enum drop_reason pc_conclude(const struct pc_flow *flow,
						    const struct pc_decision *decision)
{
	bool stored;

	if (!decision->allowed) {
		if (flow->entry == PC_ENTRY_RENEW)
			pc_ct_deny(flow);
		return PC_DROP_POLICY;
	}
	if (flow->entry == PC_ENTRY_RENEW)
		stored = pc_ct_renew(flow, decision->egress_rule, decision->ingress_rule);
	else
		stored = pc_ct_insert(flow, decision->egress_rule, decision->ingress_rule, 0);
	if (!stored)
		return PC_DROP_CT_FULL;
	pc_frag_record(flow);
	return PC_PASS;
}

SEC("tc")
int pc_policy_run(struct __sk_buff *skb __attribute__((unused)))
{
	struct pc_flow *flow = pc_flow_scratch();
	struct pc_decision decision;

	if (!flow)
		return pc_verdict(PC_DROP_NO_POLICY);
	decision = pc_decide(flow);
	flow->reason = pc_conclude(flow, &decision);
	return pc_verdict(flow->reason);
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
