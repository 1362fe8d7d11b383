/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* chosen_flows.h - programs that take B_STEPS random flows a run. The including file defines struct
 * b_flow and B_FLOWS. Gives b_at(), b_ranged() and B_PROGRAM().
 */
#pragma once
#include "ct_map.h"

#define B_STEPS 64

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, B_FLOWS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct b_flow);
} b_flows SEC(".maps");

/* The number of flows, a power of two, and the first that b_fill records. */
struct b_range {
	__u32 mask, first;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct b_range);
} b_range SEC(".maps");

static __always_inline const struct b_flow *b_at(__u32 at)
{
	return bpf_map_lookup_elem(&b_flows, &at);
}

static __always_inline struct b_range *b_ranged(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&b_range, &zero);
}

/* Each program adds up what it found, so that no lookup is left out. */
#define B_PROGRAM(name, step)                                                                      \
	SEC("tc") int name(struct __sk_buff *skb)                                                  \
	{                                                                                          \
		const struct b_range *range = b_ranged();                                          \
		const struct b_flow *flow;                                                         \
		__u32 found = 0;                                                                   \
                                                                                                   \
		if (!range)                                                                        \
			return 0;                                                                  \
		_Pragma("clang loop unroll(disable)") for (int i = 0; i < B_STEPS; i++)            \
		{                                                                                  \
			flow = b_at(bpf_get_prandom_u32() & range->mask);                          \
			if (!flow)                                                                 \
				return 0;                                                          \
			found += step(skb, flow);                                                  \
		}                                                                                  \
		return found;                                                                      \
	}

static __always_inline __u32 b_read(struct __sk_buff *skb, const struct b_flow *flow)
{
	(void)skb;
	return flow->tuple.family != 0;
}

static __always_inline __u32 b_by_hash(struct __sk_buff *skb, const struct b_flow *flow)
{
	struct pc_ct_at at = pc_ct_get(&flow->tuple, true);

	(void)skb;
	return at.ct && at.ct->flow_id && at.ct->expires;
}
