/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_map.h - the connections: one entry each, in one of two tables a family.
 * Gives struct pc_ct, struct pc_ct_at and get, put, keep, delete. An entry is there only for a flow
 * that is allowed, or was: see pc_ct_deny().
 *
 * A flow begins in a small LRU, and moves to a table that evicts nothing when both ends have spoken
 * and the first one again: no flood of first packets, answered or not, ends what is going on.
 */
#pragma once
#include "ct_key.h"

#define PC_CT4_ENTRIES 131072
#define PC_CT6_ENTRIES 65536
#define PC_NEW_ENTRIES                                                                             \
	32768 /* what a flood may fill; a flow needs its place until it is answered */

/* Of a connection to a Service. */
struct pc_ct_nat {
	__be16 port; /* the client's, as it is in the tuple of the other half (ct_front.h) */
	__u32 row;   /* the endpoint's, of service_map.h */
} __attribute__((packed));

/* One end of a connection, as far as this node has it: ifindex 0 means it has not. */
struct pc_ct_end {
	__u32 ifindex;
	union {
		__u8 mac[PC_MAC_LEN]; /* or that of whoever is next on the way there, with `out` */
		/* Of a client outside, of a Service: the node that has the endpoint, if PC_CT_FAR;
		 * else the one that the client came to. 0: this one.
		 */
		struct {
			__u32 node;
			__u16 zero;
		} __attribute__((packed));
	};
	union {
		__u8 gateway[PC_MAC_LEN]; /* whom frames to it come from, if PC_CT_CAME_* */
		struct pc_ct_nat nat;     /* of the end that this entry hands nothing to */
	};
};

enum pc_decided { PC_DECIDED_SRC = 1, PC_DECIDED_DST = 2 };

/* src and dst are those of the flow's first packet. */
struct pc_ct {
	__u64 expires; /* a tick; decided at lookup, so it holds while no agent runs */
	__u32 flow_id;
	__u32 epoch; /* of the policy that decided */
	__u32 state; /* enum pc_ct_state */
	__u32 egress_rule, ingress_rule;
	struct pc_ct_end src, dst;
	__u8 back;    /* the first packet ran from hi to lo */
	__u8 decided; /* enum pc_decided: the ends whose policy has allowed it */
	__u8 peers;   /* the same bits: the ends that packets of the other may be handed to */
	__u8 out;     /* how packets leave the node (forward_out.h); 0: the stack knows */
};
_Static_assert(sizeof(struct pc_ct) == 64, "one cache line");

#define PC_CT_TABLE(name, kind, entries, key_type)                                                 \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__uint(max_entries, entries);                                                      \
		__type(key, key_type);                                                             \
		__type(value, struct pc_ct);                                                       \
		__uint(pinning, LIBBPF_PIN_BY_NAME);                                               \
	} name SEC(".maps")

PC_CT_TABLE(pc_ct4, BPF_MAP_TYPE_HASH, PC_CT4_ENTRIES, struct pc_ct4_key);
PC_CT_TABLE(pc_ct6, BPF_MAP_TYPE_HASH, PC_CT6_ENTRIES, struct pc_ct6_key);
PC_CT_TABLE(pc_ct4_new, BPF_MAP_TYPE_LRU_HASH, PC_NEW_ENTRIES, struct pc_ct4_key);
PC_CT_TABLE(pc_ct6_new, BPF_MAP_TYPE_LRU_HASH, PC_NEW_ENTRIES, struct pc_ct6_key);

/* The keys of what is kept, in a ring that a hand goes around: nobody sweeps, so who comes takes
 * the place of one that is over.
 */
#define PC_PLACES(name, entries, key_type)                                                         \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, entries);                                                      \
		__type(key, __u32);                                                                \
		__type(value, key_type);                                                           \
		__uint(pinning, LIBBPF_PIN_BY_NAME);                                               \
	} name SEC(".maps")

PC_PLACES(pc_place4, PC_CT4_ENTRIES, struct pc_ct4_key);
PC_PLACES(pc_place6, PC_CT6_ENTRIES, struct pc_ct6_key);
PC_PLACES(pc_hand, 2, __u64); /* the next place of each family */
#define PC_PLACES_TRIED 8

/* An entry as one of its packets finds it. */
struct pc_ct_at {
	struct pc_ct *ct; /* NULL: there is none */
	bool back;        /* the packet's tuple runs from hi to lo */
	bool is_kept;     /* in the table that evicts nothing */
};

/* The entry of either direction. `surely`: also if it moves from one table to the other meanwhile.
 */
static __always_inline struct pc_ct_at pc_ct_get(const struct pc_tuple *t, bool surely)
{
	struct pc_ct_at at = {};
	struct pc_ct4_key key4;
	struct pc_ct6_key key6;

	if (t->family == PC_IPV4) {
		at.back = pc_ct4_key_of(&key4, t);
		at.ct = bpf_map_lookup_elem(&pc_ct4, &key4);
		at.is_kept = at.ct;
		if (!at.ct)
			at.ct = bpf_map_lookup_elem(&pc_ct4_new, &key4);
		if (!at.ct && surely) {
			at.ct = bpf_map_lookup_elem(&pc_ct4, &key4);
			at.is_kept = at.ct;
		}
	} else {
		at.back = pc_ct6_key_of(&key6, t);
		at.ct = bpf_map_lookup_elem(&pc_ct6, &key6);
		at.is_kept = at.ct;
		if (!at.ct)
			at.ct = bpf_map_lookup_elem(&pc_ct6_new, &key6);
		if (!at.ct && surely) {
			at.ct = bpf_map_lookup_elem(&pc_ct6, &key6);
			at.is_kept = at.ct;
		}
	}
	return at;
}

/* Stores the entry and its direction: among the new, or in the place of a kept one that is over,
 * which would hide it. False when there was no room.
 */
static __always_inline bool pc_ct_put(const struct pc_tuple *t, struct pc_ct *ct, bool is_kept)
{
	struct pc_ct4_key key4;
	struct pc_ct6_key key6;

	if (t->family == PC_IPV4) {
		ct->back = pc_ct4_key_of(&key4, t);
		if (is_kept && !bpf_map_update_elem(&pc_ct4, &key4, ct, BPF_EXIST))
			return true;
		return !bpf_map_update_elem(&pc_ct4_new, &key4, ct, BPF_ANY);
	}
	ct->back = pc_ct6_key_of(&key6, t);
	if (is_kept && !bpf_map_update_elem(&pc_ct6, &key6, ct, BPF_EXIST))
		return true;
	return !bpf_map_update_elem(&pc_ct6_new, &key6, ct, BPF_ANY);
}

/* Where the key of a connection that is to be kept may be written: the place of one that is over,
 * which is taken away, or gone. NULL where all that were tried go on.
 */
static __always_inline void *pc_ct_place(void *table, void *places, __u32 family, __u32 entries,
					 __u64 now)
{
	__u64 *hand = bpf_map_lookup_elem(&pc_hand, &family);
	struct pc_ct *there;
	void *key;
	__u32 at;

	if (!hand)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_PLACES_TRIED; i++) {
		at = __sync_fetch_and_add(hand, 1) % entries;
		key = bpf_map_lookup_elem(places, &at);
		if (!key)
			return 0;
		there = bpf_map_lookup_elem(table, key);
		if (!there)
			return key;
		if (there->expires <= now) {
			bpf_map_delete_elem(table, key);
			return key;
		}
	}
	return 0;
}

/* Moves a new entry to where nothing is evicted; where there is no place it stays. Nobody may use
 * the pointer afterwards.
 */
static __always_inline bool pc_ct_keep(const struct pc_flow *flow, const struct pc_ct *ct)
{
	struct pc_ct4_key key4, *place4;
	struct pc_ct6_key key6, *place6;

	if (flow->t.family == PC_IPV4) {
		pc_ct4_key_of(&key4, &flow->t);
		place4 = pc_ct_place(&pc_ct4, &pc_place4, 0, PC_CT4_ENTRIES, flow->now);
		if (place4 && !bpf_map_update_elem(&pc_ct4, &key4, ct, BPF_NOEXIST)) {
			*place4 = key4;
			bpf_map_delete_elem(&pc_ct4_new, &key4);
			return true;
		}
		return false;
	}
	pc_ct6_key_of(&key6, &flow->t);
	place6 = pc_ct_place(&pc_ct6, &pc_place6, 1, PC_CT6_ENTRIES, flow->now);
	if (place6 && !bpf_map_update_elem(&pc_ct6, &key6, ct, BPF_NOEXIST)) {
		*place6 = key6;
		bpf_map_delete_elem(&pc_ct6_new, &key6);
		return true;
	}
	return false;
}

static __always_inline void pc_ct_delete(const struct pc_tuple *t)
{
	struct pc_ct4_key key4;
	struct pc_ct6_key key6;

	if (t->family == PC_IPV4) {
		pc_ct4_key_of(&key4, t);
		bpf_map_delete_elem(&pc_ct4, &key4);
		bpf_map_delete_elem(&pc_ct4_new, &key4);
		return;
	}
	pc_ct6_key_of(&key6, t);
	bpf_map_delete_elem(&pc_ct6, &key6);
	bpf_map_delete_elem(&pc_ct6_new, &key6);
}
