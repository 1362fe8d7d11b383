/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* generation.h - the active policy, and the tail call to it.
 * Gives pc_generation(), pc_node_has_policy(), pc_ask_policy(). The loader changes the policy by
 * one store to pc_state.
 */
#pragma once
#include "drops.h"
#include "flow.h"

#define PC_STATE_SLOT     0xffff
#define PC_STATE_SERVICES 0x10000  /* there are Services, or there were */
#define PC_STATE_BUFFER   0x20000  /* which buffer of their tables is active */
#define PC_STATE_SNAT     0x40000  /* SNAT for pods that leave the cluster */
#define PC_STATE_HOSTS    0x100000 /* this node itself is under host policy */
#define PC_STATE_OWN_NODE 0x200000 /* policies deny some packets of this node to its pods */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64); /* from bit 0: slot (16 bits), PC_STATE_*; from bit 32: epoch */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_state SEC(".maps");

/* The number of kernel ticks per second, which the loader read from the kernel. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_clock SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_policy SEC(".maps");

/* Reads pc_state once, stamps the flow with its epoch, and returns the low 32 bits. The time is
 * that of the last tick: any other clock costs as much as half of the work for a known connection.
 * Without a tick rate every entry has expired.
 */
static __always_inline __u32 pc_generation(struct pc_flow *flow)
{
	__u32 zero = 0;
	__u64 *found = bpf_map_lookup_elem(&pc_state, &zero);
	__u64 *rate = bpf_map_lookup_elem(&pc_clock, &zero);
	__u64 state = found ? *(volatile __u64 *)found : 0;

	flow->epoch = state >> 32;
	flow->now = bpf_jiffies64();
	flow->second = rate ? *rate : 0;
	return state;
}

/* Whether this node's own packets are decided, those of its tunnel among them. */
static __always_inline bool pc_node_has_policy(void)
{
	__u32 zero = 0;
	const __u64 *found = bpf_map_lookup_elem(&pc_state, &zero);

	return found && *(volatile __u64 *)found & PC_STATE_HOSTS;
}

/* Whether the uplinks' hooks apply SNAT. */
static __always_inline bool pc_has_snat(void)
{
	__u32 zero = 0;
	const __u64 *found = bpf_map_lookup_elem(&pc_state, &zero);

	return found && *(volatile __u64 *)found & PC_STATE_SNAT;
}

/* Does not return unless the slot is empty: then no packet passes. */
static __always_inline enum drop_reason pc_ask_policy(struct __sk_buff *skb, __u32 state)
{
	bpf_tail_call(skb, &pc_policy, state & PC_STATE_SLOT);
	return PC_DROP_NO_POLICY;
}
