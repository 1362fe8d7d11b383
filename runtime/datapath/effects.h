/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* effects.h - effects of rules besides allow and deny: an answer, a limit, an event.
 * Gives pc_effect_of(). Only new connections have effects, and only where the generated program has
 * such a rule: it then defines PC_REJECTS, PC_LIMITS, PC_LOGS or PC_OWN_NODES.
 */
#pragma once
#include "flow.h"
#include "pace.h"

#define PC_EFFECT_REJECT   1 /* of the kinds of a rule, and of PC_K_EFFECTS in the shell */
#define PC_EFFECT_LIMIT    2
#define PC_EFFECT_LOG      4
#define PC_EFFECT_OWN_NODE 8 /* it also denies what the pod's own node generates */

struct pc_effect {
	__u32 kinds;
	__u32 rule;         /* the rule that owns the limit: ids with other notes share it */
	__u64 every, slack; /* for pc_is_within() */
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
