/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* socket_state.c - ways from a packet's tuple to the state of its connection, B_STEPS times a run.
 * Real sockets have the connections; the conntrack table has the same ones.
 */
#include "ct_map.h"

#define B_FLOWS 65536

struct b_flow {
	struct pc_tuple tuple;
	struct bpf_sock_tuple at; /* of a packet to the socket */
	__u32 size;
};

#include "chosen_flows.h"

/* As much as a conntrack entry has. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pc_ct);
} b_storage SEC(".maps");

static __always_inline struct bpf_sock *b_socket_of(struct __sk_buff *skb,
						    const struct b_flow *flow)
{
	struct bpf_sock_tuple at = flow->at;

	if (flow->size == sizeof(at.ipv4))
		return bpf_sk_lookup_tcp(skb, &at, sizeof(at.ipv4), BPF_F_CURRENT_NETNS, 0);
	return bpf_sk_lookup_tcp(skb, &at, sizeof(at.ipv6), BPF_F_CURRENT_NETNS, 0);
}

static __always_inline __u32 b_by_socket(struct __sk_buff *skb, const struct b_flow *flow)
{
	struct bpf_sock *found = b_socket_of(skb, flow);

	if (!found)
		return 0;
	bpf_sk_release(found);
	return 1;
}

static __always_inline __u32 b_by_storage(struct __sk_buff *skb, const struct b_flow *flow)
{
	struct bpf_sock *found = b_socket_of(skb, flow);
	const struct pc_ct *ct;
	__u32 is_there = 0;

	if (!found)
		return 0;
	ct = bpf_sk_storage_get(&b_storage, found, 0, 0);
	if (ct)
		is_there = ct->flow_id != 0;
	bpf_sk_release(found);
	return is_there;
}

/* The storage of the packet's own socket, as a hook of its cgroup has it: always warm. */
static __always_inline __u32 b_by_own(struct __sk_buff *skb, const struct b_flow *flow)
{
	struct bpf_sock *own = skb->sk;
	const struct pc_ct *ct;

	(void)flow;
	if (!own)
		return 0;
	own = bpf_sk_fullsock(own);
	if (!own)
		return 0;
	ct = bpf_sk_storage_get(&b_storage, own, 0, BPF_SK_STORAGE_GET_F_CREATE);
	return ct != 0;
}

B_PROGRAM(b_none, b_read)
B_PROGRAM(b_hash, b_by_hash)
B_PROGRAM(b_socket, b_by_socket)
B_PROGRAM(b_state, b_by_storage)
B_PROGRAM(b_own, b_by_own)

/* Records flows from the first on, in the table and with their sockets. */
SEC("tc") int b_fill(struct __sk_buff *skb)
{
	struct b_range *range = b_ranged();
	const struct b_flow *flow;
	struct pc_ct entry = {.flow_id = 1, .expires = 1}, *ct;
	struct bpf_sock *found;
	struct pc_ct4_key key4;
	struct pc_ct6_key key6;
	__u32 filled = 0;

	if (!range)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < B_STEPS; i++) {
		flow = b_at(range->first + i);
		if (!flow)
			break;
		if (flow->tuple.family == PC_IPV4) {
			pc_ct4_key_of(&key4, &flow->tuple);
			bpf_map_update_elem(&pc_ct4, &key4, &entry, BPF_ANY);
		} else {
			pc_ct6_key_of(&key6, &flow->tuple);
			bpf_map_update_elem(&pc_ct6, &key6, &entry, BPF_ANY);
		}
		found = b_socket_of(skb, flow);
		if (!found)
			break;
		ct = bpf_sk_storage_get(&b_storage, found, &entry, BPF_SK_STORAGE_GET_F_CREATE);
		filled += ct != 0;
		bpf_sk_release(found);
	}
	return filled;
}

/* The same at a hook of the cgroup: the least that it has to do for each packet. */
SEC("cgroup_skb/egress") int b_group_out(struct __sk_buff *skb)
{
	b_by_own(skb, 0);
	return 1;
}

SEC("cgroup_skb/ingress") int b_group_in(struct __sk_buff *skb)
{
	b_by_own(skb, 0);
	return 1;
}

char b_license[] SEC("license") = "Dual BSD/GPL";
