/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* policy_bench.h - the flows that every contender is asked about, and how the next one is fetched.
 * A run of a program is one flow. What fetching costs is measured by a program that does no more,
 * and subtracted. Included after flow.h.
 */
#pragma once

#define BENCH_FLOWS 65536
#define BENCH_WASH  (1 << 20) /* lines of 64 bytes: more than any cache holds */

struct bench_flow {
	__u32 subject, peer; /* endpoint ids; peer 0: nobody's address */
	struct pc_addr6 address;
	__be16 port;
	__u8 proto, family;
	__u32 zero;
};

struct bench_state {
	__u64 at, mask; /* the flow at hand, and how many take part less one */
	__u64 washes;   /* lines read before each flow, so that the caches forget */
	__u64 sum;
};

struct bench_line {
	__u64 word[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BENCH_FLOWS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct bench_flow);
} b_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bench_state);
} b_state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BENCH_WASH);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct bench_line);
} b_wash SEC(".maps");

/* The next flow, in the scratch of this CPU; NULL never. */
static __always_inline struct pc_flow *bench_next(void)
{
	struct pc_flow *flow = pc_flow_scratch();
	struct bench_state *state;
	struct bench_flow *next;
	struct bench_line *line;
	__u32 zero = 0, at, seed;

	state = bpf_map_lookup_elem(&b_state, &zero);
	if (!state || !flow)
		return 0;
	at = state->at++ & state->mask;
	next = bpf_map_lookup_elem(&b_flows, &at);
	if (!next)
		return 0;
	seed = state->at * 2654435761U;
	for (__u32 i = 0; i < 32 && i < state->washes; i++) {
		seed = seed * 1664525U + 1013904223U;
		at = seed >> 12;
		line = bpf_map_lookup_elem(&b_wash, &at);
		if (line)
			state->sum += line->word[0];
	}
	flow->tuple.family = next->family;
	flow->tuple.proto = next->proto;
	flow->tuple.dport = next->port;
	flow->tuple.daddr = next->address;
	flow->src.id = next->subject;
	flow->src.ifindex = 1;
	flow->dst.id = next->peer;
	return flow;
}

/* What every contender's result is measured against. */
SEC("tc")
int b_fetch(struct __sk_buff *skb)
{
	struct pc_flow *flow = bench_next();

	(void)skb;
	return flow ? (flow->tuple.dport & 1) + 1 : 0;
}

SEC("tc")
int b_empty(struct __sk_buff *skb)
{
	(void)skb;
	return 0;
}
