/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* service_affinity.h - session affinity: a client's next connection uses the previous endpoint.
 * Gives pc_affine() and pc_affine_note(). The table holds an endpoint's address and port for each
 * client and Service port, by whichever of the Service's addresses. It evicts the least recently
 * used entry.
 */
#pragma once
#include "service_map.h"

#define PC_AFFINE     32768 /* pairs of client and Service port */
#define PC_POOL_STEPS 17    /* steps of a binary search in a pool of PC_CHOICES */

struct pc_affine_key {
	struct pc_addr6 client;
	__u32 service; /* of struct pc_frontend */
};
_Static_assert(sizeof(struct pc_affine_key) == 20, "a map key has no hidden padding");

struct pc_affine {
	struct pc_addr6 addr;
	__be16 port;
	__u16 zero[3];
	__u64 seen; /* the tick of the last new connection */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PC_AFFINE);
	__type(key, struct pc_affine_key);
	__type(value, struct pc_affine);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_affines SEC(".maps");

/* A pool is sorted by addresses and ports, as numbers. */
static __always_inline bool pc_backend_is_before(const struct pc_backend *backend,
						 const struct pc_affine *to)
{
	__u64 high = pc_addr6_high(&backend->addr), its_high = pc_addr6_high(&to->addr);
	__u64 low = pc_addr6_low(&backend->addr), its_low = pc_addr6_low(&to->addr);

	if (high != its_high)
		return high < its_high;
	if (low != its_low)
		return low < its_low;
	return bpf_ntohs(backend->port) < bpf_ntohs(to->port);
}

/* The endpoint's index in the pool, or where it would be. Verified once, on its own. */
__noinline int pc_pool_find(const struct pc_pool *pool, const struct pc_affine *to, __u32 state)
{
	__u32 first = 0, left, half;
	const struct pc_backend *backend;

	if (!pool || !to)
		return 0;
	left = pool->count;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_POOL_STEPS && left; i++) {
		half = left / 2;
		backend = pc_choice(pool, first + half, state);
		if (backend && pc_backend_is_before(backend, to)) {
			first += half + 1;
			left -= half + 1;
		} else {
			left = half;
		}
	}
	return first;
}

/* The client's previous endpoint, within the timeout, if the client may still use it. */
static __always_inline const struct pc_backend *pc_affine(const struct pc_flow *flow,
							  const struct pc_frontend *frontend,
							  const struct pc_pool *pool, __u32 state)
{
	struct pc_affine_key key = {.client = flow->tuple.saddr, .service = frontend->service};
	const struct pc_affine *had = bpf_map_lookup_elem(&pc_affines, &key);
	const struct pc_backend *backend;
	__u32 n;

	if (!had || flow->now > had->seen + (__u64)frontend->affinity * flow->second)
		return 0;
	n = pc_pool_find(pool, had, state);
	if (n >= pool->count)
		return 0;
	backend = pc_choice(pool, n, state);
	if (!backend || backend->port != had->port || !pc_addr_eq(&backend->addr, &had->addr))
		return 0;
	return backend;
}

/* Each new connection restarts the timeout. A separate function, for its own stack frame. */
__noinline int pc_affine_note(const struct pc_flow *flow, const struct pc_frontend *frontend,
			      const struct pc_backend *backend)
{
	struct pc_affine_key key;
	struct pc_affine now;

	if (!flow || !frontend || !backend)
		return 0;
	key = (struct pc_affine_key){.client = flow->tuple.saddr, .service = frontend->service};
	now = (struct pc_affine){.addr = backend->addr, .port = backend->port, .seen = flow->now};
	return bpf_map_update_elem(&pc_affines, &key, &now, BPF_ANY);
}
