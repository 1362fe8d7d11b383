/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* service_map.h - the Services: their addresses, and the endpoints behind them.
 * Gives pc_frontend_of(), pc_choice(), pc_row_of(). Written by the loader
 * (runtime/services/tables.py); only hooks read. (service.h is something else: the part of a flow
 * that a policy can match.)
 */
#pragma once
#include "flow.h"
#include "generation.h"

#define PC_FRONTENDS 65536 /* of both buffers */
#define PC_CHOICES   65536 /* per buffer */
#define PC_ROWS_MAX  65536

/* The tables of endpoints are double-buffered. A change fills the inactive buffer, and then stores
 * the word of generation.h.
 */
struct pc_frontend_key {
	struct pc_addr6 addr;
	__be16 port;
	__u8 proto;
	__u8 half_family; /* the buffer in bit 0, and the family above */
};
_Static_assert(sizeof(struct pc_frontend_key) == 20, "a map key has no hidden padding");

/* The bits of `flags`. */
#define PC_FRONTEND_LOCAL     1 /* external clients get endpoints of this node only */
#define PC_FRONTEND_ELSEWHERE 2 /* if no endpoint fits here, another node has one */
#define PC_FRONTEND_NODE_PORT 4 /* the node's own processes also reach it at loopback */

/* Parts of pc_choices: the endpoints that take new connections, and those of them on this node. A
 * count of 0: none.
 */
struct pc_frontend {
	__u32 first, count;
	__u32 local_first, local_count;
	__u32 flags;
	__u32 affinity; /* seconds; 0: none */
	__u32 service;  /* the number of the Service's port and family, equal in all loads */
	__u32 ranges;   /* the list of source_range.h that must include the client; 0: none */
	__u32 slots;    /* entries of each part's table in maglev.h; 0: no table */
	__u32 table, local_table; /* their first index */
};
_Static_assert(sizeof(struct pc_frontend) == 44, "without padding");

struct pc_part {
	__u32 first, count;
	__u32 table, slots;
};

/* The endpoints that a client may get. */
static __always_inline struct pc_part pc_part_of(const struct pc_frontend *frontend, __u8 client)
{
	struct pc_part part = {frontend->first, frontend->count, frontend->table, frontend->slots};

	if (client == PC_CLIENT_HANDED ||
	    (client == PC_CLIENT_OUTSIDE && frontend->flags & PC_FRONTEND_LOCAL)) {
		part.first = frontend->local_first;
		part.count = frontend->local_count;
		part.table = frontend->local_table;
	}
	return part;
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_FRONTENDS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pc_frontend_key);
	__type(value, struct pc_frontend);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_frontends SEC(".maps");

struct pc_choice_halves {
	__u32 row[2 * PC_CHOICES]; /* struct pc_row's id */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct pc_choice_halves);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_choices SEC(".maps");

#define PC_ROW_PLACE 0xffff /* bits of an id with its index; above: which use of that index */

/* The bits of a row's `state`. */
#define PC_ROW_CLOSED 1 /* takes only established TCP and SCTP connections */
#define PC_ROW_TUNNEL 2 /* the Service's choice in way_back.h; neither bit: no choice */
#define PC_ROW_DSR    4

/* One endpoint behind one address and port of a Service. A row keeps its place while the endpoint
 * exists: connections refer to its id, which no other endpoint ever gets.
 */
struct pc_row {
	__u32 id;   /* 0: free */
	__u32 last; /* the last id of this place */
	struct pc_addr6 backend, frontend;
	__be16 backend_port, frontend_port;
	__u8 proto, family;
	__u8 state;
	__u8 zero;
	__u16 node; /* another node that has the endpoint, by number (outside_map.h); 0: none
		       is known */
	__u8 zeros[14];
};
_Static_assert(sizeof(struct pc_row) == 64, "a row is a cache line");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_ROWS_MAX);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct pc_row);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_rows SEC(".maps");

/* The frontend of the packet's destination; NULL: not a Service. */
static __always_inline const struct pc_frontend *pc_frontend_of(const struct pc_tuple *t,
								__u32 word)
{
	struct pc_frontend_key key = {
	    .addr = t->daddr,
	    .port = t->dport,
	    .proto = t->proto,
	    .half_family = !!(word & PC_STATE_HALF) | t->family << 1,
	};

	return bpf_map_lookup_elem(&pc_frontends, &key);
}

/* Whether the row is behind the tuple's destination. A frontend that is replaced while a packet
 * reads it may already belong to another Service.
 */
static __always_inline bool pc_row_is_at(const struct pc_row *row, const struct pc_tuple *t)
{
	return row->frontend_port == t->dport && row->proto == t->proto &&
	       pc_addr_eq(&row->frontend, &t->daddr);
}

/* The row with the id, while that id is valid. */
static __always_inline const struct pc_row *pc_row_of(__u32 id)
{
	__u32 place = id & PC_ROW_PLACE;
	const struct pc_row *row = bpf_map_lookup_elem(&pc_rows, &place);

	return row && id && *(const volatile __u32 *)&row->id == id ? row : 0;
}

/* The nth endpoint of a part. */
static __always_inline const struct pc_row *pc_choice(const struct pc_part *part, __u32 n,
						      __u32 word)
{
	__u64 at = (word & PC_STATE_HALF ? PC_CHOICES : 0) + part->first + n;
	const struct pc_choice_halves *all;
	__u32 zero = 0;

	all = bpf_map_lookup_elem(&pc_choices, &zero);
	if (!all)
		return 0;
	barrier_var(at); /* or compilers drop the mask, which the 6.1 verifier needs */
	return pc_row_of(all->row[at & (2 * PC_CHOICES - 1)]);
}
