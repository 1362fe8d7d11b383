/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* policy_maps.h - the tables of one generation, and the search in them.
 * Included by the generated policy.bpf.c after its sizes (docs/bundle-format.md), before its code.
 * Gives the maps, pc_table_leaf(). Whatever is not there leads to PC_LEAF_NONE, which denies.
 */
#pragma once
#include "flow.h"

#if !defined(PC_ROWS) || !defined(PC_COLUMNS) || !defined(PC_DIAGRAMS) || !defined(PC_STEPS) ||    \
    !defined(PC_RULES) || !defined(PC_ENDPOINTS) || !defined(PC_STEP_ROUNDS) ||                    \
    !defined(PC_CIDR4_ENTRIES) || !defined(PC_CIDR6_ENTRIES)
#error "the generated policy.bpf.c defines the sizes first"
#endif

#define PC_LEAF_DENY  0
#define PC_LEAF_ALLOW 1
#define PC_LEAF_NONE  0xffffffffU /* no diagram says anything: fail closed */

#define PC_RULE_NOT_ISOLATED 0 /* allowed: no policy selects the end in this direction */
#define PC_RULE_FAIL_CLOSED  1 /* denied: an id that nothing was compiled or filled in for */

#define PC_COLUMN_FAIL_CLOSED 0 /* of a peer that no column was made for */

#define PC_CELLS (PC_ROWS * PC_COLUMNS)

_Static_assert(PC_RULES >= 2, "rules 0 and 1 always exist");

struct pc_class {
	__u32 row, column4, column6;
};

struct pc_cell {
	__u32 action, rule; /* diagrams */
};

struct pc_diagram {
	__u32 first, steps;
};

struct pc_step {
	__u32 lowest; /* service key from which on, up to the next step, the leaf holds */
	__u32 leaf;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_ENDPOINTS);
	__type(key, __u32);
	__type(value, struct pc_class);
} pc_class SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_CELLS);
	__type(key, __u32);
	__type(value, struct pc_cell);
} pc_cell_in SEC(".maps"), pc_cell_eg SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_DIAGRAMS);
	__type(key, __u32);
	__type(value, struct pc_diagram);
} pc_diagram SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_STEPS);
	__type(key, __u32);
	__type(value, struct pc_step);
} pc_step SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PC_RULES);
	__type(key, __u32);
	__type(value, __u64);
} pc_counts SEC(".maps");

#if PC_CIDR4_ENTRIES
struct pc_cidr4_key {
	__u32 length;
	__be32 address;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, PC_CIDR4_ENTRIES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pc_cidr4_key);
	__type(value, __u32); /* column */
} pc_cidr4 SEC(".maps");

static __always_inline __u32 pc_cidr4_column(__be32 address)
{
	struct pc_cidr4_key key = {.length = 32, .address = address};
	__u32 *column = bpf_map_lookup_elem(&pc_cidr4, &key);

	return column ? *column : PC_COLUMN_FAIL_CLOSED;
}
#endif

#if PC_CIDR6_ENTRIES
struct pc_cidr6_key {
	__u32 length;
	struct pc_addr6 address;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, PC_CIDR6_ENTRIES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pc_cidr6_key);
	__type(value, __u32); /* column */
} pc_cidr6 SEC(".maps");

static __always_inline __u32 pc_cidr6_column(const struct pc_addr6 *address)
{
	struct pc_cidr6_key key = {.length = 128, .address = *address};
	__u32 *column = bpf_map_lookup_elem(&pc_cidr6, &key);

	return column ? *column : PC_COLUMN_FAIL_CLOSED;
}
#endif

/* The leaf of the last step that starts at or below the service, by binary search. Looks at every
 * index before it is used: a diagram that is cut off, or longer than the rounds reach, has no leaf.
 */
static __always_inline __u32 pc_table_leaf(__u32 diagram, __u32 service)
{
	struct pc_diagram *shape = bpf_map_lookup_elem(&pc_diagram, &diagram);
	__u32 low, count, middle;
	struct pc_step *step;

	if (!shape || !shape->steps)
		return PC_LEAF_NONE;
	low = shape->first;
	count = shape->steps;
	for (int round = 0; round < PC_STEP_ROUNDS; round++) {
		if (count <= 1)
			break;
		middle = low + count / 2;
		step = bpf_map_lookup_elem(&pc_step, &middle);
		if (!step)
			return PC_LEAF_NONE;
		if (step->lowest <= service) {
			low = middle;
			count -= count / 2;
		} else {
			count /= 2;
		}
	}
	step = bpf_map_lookup_elem(&pc_step, &low);
	if (count != 1 || !step || step->lowest > service)
		return PC_LEAF_NONE;
	return step->leaf;
}
