/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* effects.h - what rules ask for beside allow and deny: an answer, a limit, an event.
 * Gives pc_effect_of() and pc_is_within(). Only new connections meet it, and only where the
 * generated program has such a rule: it then defines PC_REJECTS, PC_LIMITS or PC_LOGS.
 */
#pragma once
#include "flow.h"

#define PC_EFFECT_REJECT 1 /* of the kinds of a rule, and of PC_K_EFFECTS in the shell */
#define PC_EFFECT_LIMIT  2
#define PC_EFFECT_LOG    4

struct pc_effect {
	__u32 kinds;
	__u32 rule;         /* whose limit it is: ids with other notes share it */
	__u64 every, slack; /* of pc_is_within() */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_RULES);
	__type(key, __u32);
	__type(value, struct pc_effect);
} pc_effects SEC(".maps");

static __always_inline const struct pc_effect *pc_effect_of(__u32 rule, __u32 kind)
{
	const struct pc_effect *effect = bpf_map_lookup_elem(&pc_effects, &rule);

	return effect && effect->kinds & kind ? effect : 0;
}

/* Whether one more may come now, where one may come `every` nanoseconds, and up to `slack` before
 * it is due: `due` is when the next one is, at an even pace. Two CPUs that meet here try again;
 * after a few times it is one too many.
 */
static __always_inline bool pc_is_within(__u64 *due, __u64 now, __u64 every, __u64 slack)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		__u64 seen = *(volatile __u64 *)due;
		__u64 from = seen > now ? seen : now;

		if (from - now > slack)
			return false;
		if (__sync_val_compare_and_swap(due, seen, from + every) == seen)
			return true;
	}
	return false;
}
