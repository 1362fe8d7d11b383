/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* tunnel_cpu.h - what each CPU keeps about packets between nodes.
 * Gives pc_tunnel_id(), pc_leaves_one(), pc_left_one_now().
 */
#pragma once
#include "flow.h"

#define PC_LEFT_TICKS 1       /* a packet waits no longer in the device */
#define PC_ID_BY_CPU  0x9e37u /* so that CPUs start at different ids */

struct pc_tunnel_cpu {
	__u64 left;    /* when it last left a packet to the device, in ticks */
	__u64 next_id; /* the next outer IP id */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_tunnel_cpu);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_tunnel_cpus SEC(".maps");

static __always_inline struct pc_tunnel_cpu *pc_tunnel_this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pc_tunnel_cpus, &zero);
}

/* The outer IP id for a packet that becomes so many: the ids follow one another, as the receiver
 * merges only such segments (GRO). Routers may fragment packets, so all have an id.
 */
static __always_inline __u16 pc_tunnel_id(__u32 packets)
{
	struct pc_tunnel_cpu *cpu = pc_tunnel_this_cpu();
	__u64 id;

	if (!cpu)
		return 0;
	id = cpu->next_id;
	cpu->next_id = id + packets;
	return id + bpf_get_smp_processor_id() * PC_ID_BY_CPU;
}

/* Leaves a packet from another node to the VXLAN device. */
static __always_inline void pc_leaves_one(const struct pc_flow *flow)
{
	struct pc_tunnel_cpu *cpu = pc_tunnel_this_cpu();

	if (cpu)
		cpu->left = flow->now;
}

/* Whether this CPU has left one to the device a moment ago. */
static __always_inline bool pc_left_one_now(const struct pc_flow *flow)
{
	const struct pc_tunnel_cpu *cpu = pc_tunnel_this_cpu();

	return !cpu || flow->now - cpu->left <= PC_LEFT_TICKS;
}
