/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_map.h - the connections: one entry each, in one map a family.
 * Gives struct pc_ct and get, put, delete. An entry is there only for a flow that is
 * allowed, or was: see pc_ct_deny().
 */
#pragma once
#include "ct_key.h"

#define PC_CT4_ENTRIES 131072
#define PC_CT6_ENTRIES 65536

/* One end of a connection, as far as this node has it: ifindex 0 means it has not. */
struct pc_ct_end {
	__u32 ifindex;
	__u8 mac[PC_MAC_LEN];
	__u8 zero[2];
};

enum pc_decided { PC_DECIDED_SRC = 1, PC_DECIDED_DST = 2 };

/* src and dst are those of the flow's first packet. */
struct pc_ct {
	__u64 expires_ns; /* decided at lookup, so it holds while no agent runs */
	__u64 flow_id;
	__u32 epoch; /* of the policy that decided */
	__u32 state; /* enum pc_ct_state */
	__u32 egress_rule, ingress_rule;
	struct pc_ct_end src, dst;
	__u8 back;    /* the first packet ran from hi to lo */
	__u8 decided; /* enum pc_decided: the ends whose policy has allowed it */
	__u8 zero[6];
};
_Static_assert(sizeof(struct pc_ct) == 64, "one cache line");

/* LRU: under a flood the oldest goes, and a lost entry is decided again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PC_CT4_ENTRIES);
	__type(key, struct pc_ct4_key);
	__type(value, struct pc_ct);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_ct4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PC_CT6_ENTRIES);
	__type(key, struct pc_ct6_key);
	__type(value, struct pc_ct);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_ct6 SEC(".maps");

/* The entry of either direction, or NULL. *back: the tuple runs from hi to lo. */
static __always_inline struct pc_ct *pc_ct_get(const struct pc_tuple *t, bool *back)
{
	struct pc_ct4_key key4;
	struct pc_ct6_key key6;

	if (t->family == PC_IPV4) {
		*back = pc_ct4_key_of(&key4, t);
		return bpf_map_lookup_elem(&pc_ct4, &key4);
	}
	*back = pc_ct6_key_of(&key6, t);
	return bpf_map_lookup_elem(&pc_ct6, &key6);
}

/* Stores the entry and its direction. False when the map had no room. */
static __always_inline bool pc_ct_put(const struct pc_tuple *t, struct pc_ct *ct)
{
	struct pc_ct4_key key4;
	struct pc_ct6_key key6;

	if (t->family == PC_IPV4) {
		ct->back = pc_ct4_key_of(&key4, t);
		return !bpf_map_update_elem(&pc_ct4, &key4, ct, BPF_ANY);
	}
	ct->back = pc_ct6_key_of(&key6, t);
	return !bpf_map_update_elem(&pc_ct6, &key6, ct, BPF_ANY);
}

static __always_inline void pc_ct_delete(const struct pc_tuple *t)
{
	struct pc_ct4_key key4;
	struct pc_ct6_key key6;

	if (t->family == PC_IPV4) {
		pc_ct4_key_of(&key4, t);
		bpf_map_delete_elem(&pc_ct4, &key4);
		return;
	}
	pc_ct6_key_of(&key6, t);
	bpf_map_delete_elem(&pc_ct6, &key6);
}
