/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* policy_chain.c - hands the flow to a program of linear rules, which policy_chain.py assembles:
 * clang and the verifier refuse such a chain in C beyond about a hundred rules. Slot 32 has a chain
 * without rules.
 */
#include "flow.h"
#include "policy_bench.h"

struct set_key {
	__u32 length;
	__u32 set;
	__be32 address;
};

/* Which addresses are in the set of pods of a selector, all sets in one trie. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct set_key);
	__type(value, __u32);
} l_sets SEC(".maps");

struct chain_flow {
	__u32 address; /* host order */
	__u32 service; /* protocol << 16 | port */
	__be32 wire;
	__u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct chain_flow);
} l_flow SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 33); /* 32 pieces in a row may be tail called */
	__type(key, __u32);
	__type(value, __u32);
} l_chains SEC(".maps");

static __always_inline int ask(struct __sk_buff *skb, __u32 slot)
{
	struct pc_flow *flow = bench_next();
	struct chain_flow *given;
	__u32 zero = 0;

	given = bpf_map_lookup_elem(&l_flow, &zero);
	if (!flow || !given)
		return 0;
	given->wire = flow->tuple.daddr.word[0];
	given->address = bpf_ntohl(given->wire);
	given->service = flow->tuple.proto << 16 | bpf_ntohs(flow->tuple.dport);
	bpf_tail_call(skb, &l_chains, slot);
	return 0;
}

SEC("tc")
int b_verdict(struct __sk_buff *skb)
{
	return ask(skb, 0);
}

SEC("tc")
int b_no_rules(struct __sk_buff *skb)
{
	return ask(skb, 32);
}
