/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* service_map.h - the Services: their addresses, and the endpoints behind them.
 * Gives pc_frontend_of(), pc_choice(), pc_backend_of(). Written by the loader
 * (runtime/services/tables.py); only hooks read.
 */
#pragma once
#include "flow.h"
#include "generation.h"

#define PC_FRONTENDS    65536 /* of both buffers */
#define PC_CHOICES      65536 /* per buffer */
#define PC_BACKENDS_MAX 65536

/* Frontends and pools are double-buffered; the buffers share the backends. A change fills the
 * inactive buffer, and then stores pc_state.
 */
struct pc_frontend_key {
	struct pc_addr6 addr;
	__be16 port;
	__u8 proto;
	__u8 buffer_family; /* the buffer in bit 0, and the family above */
};
_Static_assert(sizeof(struct pc_frontend_key) == 20, "a map key has no hidden padding");

/* The bits of `flags`. */
#define PC_FRONTEND_LOCAL 1 /* external clients get endpoints of this node only */
#define PC_FRONTEND_OTHER_NODES                                                                    \
	2 /* other nodes have endpoints: an empty pool drops, and does not reject */
#define PC_FRONTEND_NODE_PORT 4 /* the node's own processes also reach it at loopback */

/* Its two pools: the endpoints that take new connections, and those of them on this node. A pool is
 * a range of pc_choices. A count of 0: the pool is empty.
 */
struct pc_frontend {
	__u32 first, count;
	__u32 local_first, local_count;
	__u32 flags;
	__u32 affinity; /* seconds; 0: none */
	__u32 service;  /* the number of the Service's port and family, equal in all loads */
	__u32 ranges;   /* the list of source_range.h that must include the client; 0: none */
	__u32 slots;    /* entries of each pool's table in maglev.h; 0: no table */
	__u32 table, local_table; /* their first index */
};
_Static_assert(sizeof(struct pc_frontend) == 44, "without padding");

struct pc_pool {
	__u32 first, count;
	__u32 table, slots;
};

/* The pool of endpoints that a client may get. A forwarded packet has to end at this node. */
static __always_inline struct pc_pool pc_pool_of(const struct pc_frontend *frontend, __u8 client)
{
	struct pc_pool pool = {frontend->first, frontend->count, frontend->table, frontend->slots};

	if (client == PC_CLIENT_FORWARDED ||
	    (client == PC_CLIENT_EXTERNAL && frontend->flags & PC_FRONTEND_LOCAL)) {
		pool.first = frontend->local_first;
		pool.count = frontend->local_count;
		pool.table = frontend->local_table;
	}
	return pool;
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_FRONTENDS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pc_frontend_key);
	__type(value, struct pc_frontend);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_frontends SEC(".maps");

struct pc_choice_buffers {
	__u32 backend[2 * PC_CHOICES]; /* struct pc_backend's id */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct pc_choice_buffers);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_choices SEC(".maps");

#define PC_BACKEND_PLACE 0xffff /* low bits of an id: its index; high bits: uses of the index */

/* The bits of a backend's `state`. */
#define PC_BACKEND_NO_NEW 1 /* no new connections; established ones of TCP and SCTP go on */
#define PC_BACKEND_TUNNEL 2 /* the Service's choice in return_path.h; neither bit: no choice */
#define PC_BACKEND_DSR    4

/* One endpoint behind one address and port of a Service. A backend keeps its place while the
 * endpoint exists: connections refer to its id, which no other endpoint ever gets.
 */
struct pc_backend {
	__u32 id;   /* 0: free */
	__u32 last; /* the last id of this place */
	struct pc_addr6 addr, frontend;
	__be16 port, frontend_port;
	__u8 proto, family;
	__u8 state;
	__u8 zero;
	__u16 node; /* another node that has the endpoint, by number (external_map.h); 0: none
		       is known */
	__u8 zeros[14];
};
_Static_assert(sizeof(struct pc_backend) == 64, "a backend is a cache line");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_BACKENDS_MAX);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct pc_backend);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_backends SEC(".maps");

/* The frontend of the packet's destination; NULL: not a Service. */
static __always_inline const struct pc_frontend *pc_frontend_of(const struct pc_tuple *t,
								__u32 state)
{
	struct pc_frontend_key key = {
	    .addr = t->daddr,
	    .port = t->dport,
	    .proto = t->proto,
	    .buffer_family = !!(state & PC_STATE_BUFFER) | t->family << 1,
	};

	return bpf_map_lookup_elem(&pc_frontends, &key);
}

/* Whether the backend is behind the tuple's destination. A frontend that is replaced while a packet
 * reads it may already belong to another Service.
 */
static __always_inline bool pc_backend_is_at(const struct pc_backend *backend,
					     const struct pc_tuple *t)
{
	return backend->frontend_port == t->dport && backend->proto == t->proto &&
	       pc_addr_eq(&backend->frontend, &t->daddr);
}

/* The backend with the id, while that id is valid. */
static __always_inline const struct pc_backend *pc_backend_of(__u32 id)
{
	__u32 place = id & PC_BACKEND_PLACE;
	const struct pc_backend *backend = bpf_map_lookup_elem(&pc_backends, &place);

	return backend && id && *(const volatile __u32 *)&backend->id == id ? backend : 0;
}

/* The nth endpoint of a pool. */
static __always_inline const struct pc_backend *pc_choice(const struct pc_pool *pool, __u32 n,
							  __u32 state)
{
	__u64 at = (state & PC_STATE_BUFFER ? PC_CHOICES : 0) + pool->first + n;
	const struct pc_choice_buffers *all;
	__u32 zero = 0;

	all = bpf_map_lookup_elem(&pc_choices, &zero);
	if (!all)
		return 0;
	barrier_var(at); /* or compilers drop the mask, which the 6.1 verifier needs */
	return pc_backend_of(all->backend[at & (2 * PC_CHOICES - 1)]);
}
