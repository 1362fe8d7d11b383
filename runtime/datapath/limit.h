/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* limit.h - how many new connections a rule lets through, of each source.
 * Gives pc_is_limited(). A source is an address. What is remembered of it goes when as many others
 * as there are places have come since: it may then come at once again as it could at first. So pods
 * and nodes have a table of their own: however many addresses clients outside have, they push out
 * no pod's.
 */
#pragma once
#include "effects.h"

#define PC_LIMITED 65536 /* rules and sources that are remembered */

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

/* One too many of this source, for a rule that allows it. */
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
	    .source = flow->t.saddr,
	    .family = flow->t.family,
	};

	if (!effect)
		return false;
	key.rule = effect->rule;
	return flow->src.id ? pc_is_over_in(&pc_limits, &key, effect, now)
			    : pc_is_over_in(&pc_limits_out, &key, effect, now);
}

/* A connection that both ends allow, and one of them not now. What goes on is not new, nor is what
 * a changed policy is asked about again.
 */
static __always_inline bool pc_is_limited(const struct pc_flow *flow, __u32 egress_rule,
					  __u32 ingress_rule)
{
	__u64 now;

	if (flow->entry != PC_ENTRY_INSERT)
		return false;
	now = bpf_ktime_get_ns();
	return pc_is_over(flow, egress_rule, now) || pc_is_over(flow, ingress_rule, now);
}
