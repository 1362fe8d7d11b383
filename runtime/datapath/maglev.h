/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* maglev.h - Maglev tables: each client gets the same endpoint on every node.
 * Gives pc_maglev_nth(). Written by the loader (runtime/services/maglev.py), double-buffered as all
 * tables of endpoints are.
 */
#pragma once
#include "service_map.h"

#define PC_MAGLEV_SLOTS 1048576 /* per buffer */

/* The index of an endpoint in its pool, from 0 on. */
struct pc_maglev_buffers {
	__u16 nth[2 * PC_MAGLEV_SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct pc_maglev_buffers);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_maglev SEC(".maps");

/* A hash of the source, and of its port if that matters. It is the same on every node, so it has no
 * seed. The constants are those of endpoints.h.
 */
static __always_inline __u64 pc_maglev_hash(const struct pc_tuple *t, bool with_port)
{
	__u64 mixed = pc_addr6_high(&t->saddr) ^ (with_port ? bpf_ntohs(t->sport) : 0);

	mixed *= 0x9e3779b97f4a7c15ULL;
	mixed = (mixed ^ mixed >> 32 ^ pc_addr6_low(&t->saddr)) * 0xc2b2ae3d27d4eb4fULL;
	mixed = (mixed ^ mixed >> 29) * 0x9e3779b97f4a7c15ULL;
	return mixed ^ mixed >> 32;
}

/* The endpoint of the pool for the tuple's client. */
static __always_inline __u32 pc_maglev_nth(const struct pc_tuple *t, const struct pc_pool *pool,
					   bool with_port, __u32 state)
{
	const struct pc_maglev_buffers *all;
	__u32 zero = 0;
	__u64 at;

	all = bpf_map_lookup_elem(&pc_maglev, &zero);
	if (!all)
		return 0;
	at = (state & PC_STATE_BUFFER ? PC_MAGLEV_SLOTS : 0) + pool->table;
	at += pc_maglev_hash(t, with_port) % pool->slots;
	barrier_var(at); /* or compilers drop the mask, which the 6.1 verifier needs */
	return all->nth[at & (2 * PC_MAGLEV_SLOTS - 1)];
}
