/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_map.h - the connections: one entry each, in one of two tables a family.
 * Gives struct pc_ct_at and get, put, keep, delete.
 *
 * A flow begins in a small cache, and moves to a table that evicts nothing when both ends have
 * spoken and the first one again: no flood of first packets, answered or not, ends what is going
 * on.
 */
#pragma once
#include "ct_new_put.h"

#define PC_CT4_ENTRIES 131072
#define PC_CT6_ENTRIES 65536

#define PC_CT_TABLE(name, entries, key_type)                                                       \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_HASH);                                                   \
		__uint(max_entries, entries);                                                      \
		__type(key, key_type);                                                             \
		__type(value, struct pc_ct);                                                       \
		__uint(pinning, LIBBPF_PIN_BY_NAME);                                               \
	} name SEC(".maps")

PC_CT_TABLE(pc_ct4, PC_CT4_ENTRIES, struct pc_ct4_key);
PC_CT_TABLE(pc_ct6, PC_CT6_ENTRIES, struct pc_ct6_key);

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
	union pc_ct_key key;

	if (t->family == PC_IPV4) {
		at.back = pc_ct4_key_of(&key.v4, t);
		at.ct = bpf_map_lookup_elem(&pc_ct4, &key.v4);
		at.is_kept = at.ct;
		if (!at.ct)
			at.ct = pc_new4_find(&key.v4);
		if (!at.ct && surely) {
			at.ct = bpf_map_lookup_elem(&pc_ct4, &key.v4);
			at.is_kept = at.ct;
		}
	} else {
		at.back = pc_ct6_key_of(&key.v6, t);
		at.ct = bpf_map_lookup_elem(&pc_ct6, &key.v6);
		at.is_kept = at.ct;
		if (!at.ct)
			at.ct = pc_new6_find(&key.v6);
		if (!at.ct && surely) {
			at.ct = bpf_map_lookup_elem(&pc_ct6, &key.v6);
			at.is_kept = at.ct;
		}
	}
	return at;
}

/* In the place of a kept one that is over, which would hide it. Verified once, by itself; a copy,
 * as 6.1 writes no map from what a function was given.
 */
__noinline int pc_ct_replace(const struct pc_tuple *t, const struct pc_ct *ct)
{
	union pc_ct_key key;
	struct pc_ct copy;

	if (!t || !ct)
		return false;
	copy = *ct;
	if (t->family == PC_IPV4) {
		copy.back = pc_ct4_key_of(&key.v4, t);
		return !bpf_map_update_elem(&pc_ct4, &key.v4, &copy, BPF_EXIST);
	}
	copy.back = pc_runs_back(t);
	pc_ct6_key_at(&key.v6, t, copy.back);
	return !bpf_map_update_elem(&pc_ct6, &key.v6, &copy, BPF_EXIST);
}

/* Stores the entry of the flow's tuple, and its direction. False when there was no room. */
static __always_inline bool pc_ct_put(const struct pc_flow *flow, struct pc_ct *ct, bool is_kept)
{
	return (is_kept && pc_ct_replace(&flow->t, ct)) || pc_new_put(&flow->t, ct, flow->second);
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
	struct pc_ct4_key *place4;
	struct pc_ct6_key *place6;
	union pc_ct_key key;

	if (flow->t.family == PC_IPV4) {
		pc_ct4_key_of(&key.v4, &flow->t);
		place4 = pc_ct_place(&pc_ct4, &pc_place4, 0, PC_CT4_ENTRIES, flow->now);
		if (place4 && !bpf_map_update_elem(&pc_ct4, &key.v4, ct, BPF_NOEXIST)) {
			*place4 = key.v4;
			pc_new_drop(&flow->t);
			return true;
		}
		return false;
	}
	pc_ct6_key_of(&key.v6, &flow->t);
	place6 = pc_ct_place(&pc_ct6, &pc_place6, 1, PC_CT6_ENTRIES, flow->now);
	if (place6 && !bpf_map_update_elem(&pc_ct6, &key.v6, ct, BPF_NOEXIST)) {
		*place6 = key.v6;
		pc_new_drop(&flow->t);
		return true;
	}
	return false;
}

/* Takes the kept entry of the tuple away, if there is one. Verified once, by itself. */
__noinline int pc_ct_drop(const struct pc_tuple *t)
{
	union pc_ct_key key;

	if (!t)
		return 0;
	if (t->family == PC_IPV4) {
		pc_ct4_key_of(&key.v4, t);
		bpf_map_delete_elem(&pc_ct4, &key.v4);
	} else {
		pc_ct6_key_at(&key.v6, t, pc_runs_back(t));
		bpf_map_delete_elem(&pc_ct6, &key.v6);
	}
	return 0;
}

static __always_inline void pc_ct_delete(const struct pc_tuple *t)
{
	pc_ct_drop(t);
	pc_new_drop(t);
}
