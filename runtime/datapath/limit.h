/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* limit.h - limits how many new connections a rule allows, per source.
 * Gives pc_is_limited(). A source is an address. When the table is full,
 * the least recently used source is forgotten, and then has its initial
 * burst again. So pods and nodes have a table of their own: external
 * clients, however many addresses they have, evict no pod from it.
 */
#pragma once
#include "effects.h"

#define PC_LIMITED 65536 /* pairs of rule and source */

struct pc_limit_key {
	struct pc_addr6 source;
	__u32 rule;
	__u32 family;
};
_Static_assert(sizeof(struct pc_limit_key) == 24, "a key without padding");

#define PC_LIMIT_TABLE(name)                                                                       \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_LRU_HASH);                                               \
		__uint(max_entries, PC_LIMITED);                                                   \
		__type(key, struct pc_limit_key);                                                  \
		__type(value, __u64); /* when the next connection is due */                        \
	} name SEC(".maps")

PC_LIMIT_TABLE(pc_limits);
PC_LIMIT_TABLE(pc_limits_out); /* of sources that are no endpoint */

/* True: this connection exceeds the source's limit for the rule, which allows it. */
static __always_inline bool pc_is_over_in(void *table, const struct pc_limit_key *key,
					  const struct pc_effect *effect, __u64 now)
{
	__u64 *due = bpf_map_lookup_elem(table, key), first;

	if (!due) {
		first = now + effect->every;
		if (!bpf_map_update_elem(table, key, &first, BPF_NOEXIST))
			return false;
		due = bpf_map_lookup_elem(table, key); /* another CPU was first */
	}
	return !due || !pc_is_within(due, now, effect->every, effect->slack);
}

static __always_inline bool pc_is_over(const struct pc_flow *flow, __u32 rule, __u64 now)
{
	const struct pc_effect *effect = pc_effect_of(rule, PC_EFFECT_LIMIT);
	struct pc_limit_key key = {
	    .source = flow->tuple.saddr,
	    .family = flow->tuple.family,
	};

	if (!effect)
		return false;
	key.rule = effect->rule;
	return flow->src.id ? pc_is_over_in(&pc_limits, &key, effect, now)
			    : pc_is_over_in(&pc_limits_out, &key, effect, now);
}

/* Whether one of the two ends, which both allow the connection, limits it now. Established
 * connections, and those that a changed policy decides again, are not new.
 */
static __always_inline bool pc_is_limited(const struct pc_flow *flow, __u32 egress_rule,
					  __u32 ingress_rule)
{
	__u64 now;

	if (flow->action.entry_op != PC_ENTRY_INSERT)
		return false;
	now = bpf_ktime_get_ns();
	return pc_is_over(flow, egress_rule, now) || pc_is_over(flow, ingress_rule, now);
}
