/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* effects.h - what rules ask for beside allow and deny: an answer, a limit.
 * Gives pc_effect_of() and pc_is_within(). Only new connections meet it, and only where the
 * generated program has a rule with effects: it then says which in PC_EFFECTS.
 */
#pragma once
#include "flow.h"

#define PC_EFFECT_REJECT 1 /* bits of PC_EFFECTS, and of a rule's kinds */

struct pc_effect {
	__u32 kinds;
	__u32 zero[3];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_RULES);
	__type(key, __u32);
	__type(value, struct pc_effect);
} pc_effects SEC(".maps");

static __always_inline bool pc_has_effect(__u32 rule, __u32 kind)
{
	const struct pc_effect *effect = bpf_map_lookup_elem(&pc_effects, &rule);

	return effect && effect->kinds & kind;
}

/* Whether one more is within `rate` a second with `burst` at once: `due` is when the last one would
 * have come at an even pace, in ticks times the rate, so that there is nothing to divide. Two CPUs
 * that meet here try again; after a few times it is one too many. Without a clock, all are.
 */
static __always_inline bool pc_is_within(__u64 *due, const struct pc_flow *flow, __u64 rate,
					 __u64 burst)
{
	__u64 now = flow->now * rate, most = (burst - 1) * flow->second;

	if (!flow->second)
		return false;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		__u64 seen = *(volatile __u64 *)due;
		__u64 from = seen > now ? seen : now;

		if (from - now > most)
			return false;
		if (__sync_val_compare_and_swap(due, seen, from + flow->second) == seen)
			return true;
	}
	return false;
}
