/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* policy_generic.c - the same policy by generic maps: an address has an identity (a trie of
 * prefixes), and (identity, protocol, port prefix) is looked up in a trie of allowed traffic, then
 * once more for any identity.
 */
#include "flow.h"
#include "policy_bench.h"

struct identity_key {
	__u32 length;
	__be32 address;
};

struct allowed_key {
	__u32 length;
	__u32 identity;
	__u8 direction, proto;
	__be16 port;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct identity_key);
	__type(value, __u32);
} g_identity SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct allowed_key);
	__type(value, __u32);
} g_allowed SEC(".maps");

SEC("tc")
int b_verdict(struct __sk_buff *skb)
{
	struct pc_flow *flow = bench_next();
	struct identity_key who = {.length = 32};
	struct allowed_key what = {.length = 64};
	__u32 *identity;

	(void)skb;
	if (!flow)
		return 0;
	who.address = flow->tuple.daddr.word[0];
	identity = bpf_map_lookup_elem(&g_identity, &who);
	what.identity = identity ? *identity : 0;
	what.proto = flow->tuple.proto;
	what.port = flow->tuple.dport;
	if (what.identity && bpf_map_lookup_elem(&g_allowed, &what))
		return 1;
	what.identity = 0;
	return bpf_map_lookup_elem(&g_allowed, &what) ? 1 : 2;
}
