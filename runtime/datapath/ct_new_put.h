/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_new_put.h - what writes to the cache of connections that begin, from any CPU at once.
 * Gives pc_new_put(), pc_new_drop(), each verified once.
 *
 * A way is taken by exchanging its word, so that one CPU has it; its entry is there when the word
 * becomes the tag. An entry in the place of one of the same key is there before that goes: who asks
 * in between finds either. Two CPUs that put one key may have two entries there until the later of
 * both has looked for the other: then that of the lower way stays. Both are of packets of the same
 * moment, and an entry of an older policy is decided again by whoever finds it.
 */
#pragma once
#include "ct_new_way.h"

/* Of entries that are to be replaced: what is over is the next to be chosen, what is not the last.
 */
static __always_inline void pc_new_replace(struct pc_new_set *set, __u32 before, __u64 now)
{
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PC_NEW_WAYS; i++)
		if (before >> i & 1)
			set->head.used[i] = set->ct[i].expires > now ? now : now - PC_NEW_LONG;
}

/* The entry is there from now on, and none of the same key that was there before, or that another
 * CPU has put meanwhile. False: the way was nobody's any more.
 */
static __always_inline bool pc_new_publish(struct pc_new_head *head, __u32 way, __u32 before,
					   __u32 tag, __u64 now)
{
	__u32 others;

	if (!pc_new_swap(head, way, pc_new_mine(now), tag))
		return false;
	others = pc_new_same(head, tag) & ~(1U << way);
	if (!others)
		return true;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PC_NEW_WAYS; i++)
		if (others >> i & 1)
			pc_new_swap(head, before >> i & 1 || i > way ? i : way, tag, 0);
	return true;
}

/* As pc_new6_hash() of the tuple's key, which would not fit the stack. */
static __always_inline __u64 pc_new_hash(const struct pc_tuple *t, bool back)
{
	const struct pc_ct_seeds *seed = pc_new_seeds();
	struct pc_key_ends ends = pc_key_ends_of(t, back);
	__u64 hash;

	if (!seed)
		return 0;
	hash = seed->base + seed->by[8] * pc_key_ports(ends.lo_port, ends.hi_port) +
	       seed->by[9] * pc_key_kind(t->proto, t->sub);
#pragma unroll
	for (int i = 0; i < 4; i++)
		hash += seed->by[i] * ends.lo->word[i] + seed->by[4 + i] * ends.hi->word[i];
	return hash;
}

/* The set that the hash leads to. */
static __always_inline struct pc_new_set *pc_new_set_at(__u64 hash, __u8 family)
{
	__u32 at = pc_new_set_of(hash);
	struct pc_new_set *set;

	if (family == PC_IPV4) {
		set = bpf_map_lookup_elem(&pc_ct4_new, &at);
		barrier_var(set); /* or the lookups become one, of which the kernel makes a call */
	} else {
		set = bpf_map_lookup_elem(&pc_ct6_new, &at);
	}
	return set;
}

/* Puts the entry, and its direction, in the place of one of its tuple if there is one. False: no
 * room, or no seed yet.
 */
__noinline int pc_new_put(const struct pc_tuple *t, struct pc_ct *ct, __u64 second)
{
	__u32 tag, before, way;
	struct pc_new_set *set;
	__u64 hash, now;

	if (!t || !ct)
		return false;
	ct->back = pc_runs_back(t);
	hash = pc_new_hash(t, ct->back);
	set = hash ? pc_new_set_at(hash, t->family) : 0;
	if (!set)
		return false;
	now = bpf_jiffies64();
	tag = pc_new_tag_of(hash);
	before = pc_new_same(&set->head, tag);
	if (before)
		pc_new_replace(set, before, now);
	way = pc_new_take(set, now, second);
	if (way >= PC_NEW_WAYS)
		return false;
	barrier_var(way); /* or 6.1 is not shown its bounds */
	way &= PC_NEW_WAYS - 1;
	barrier_var(t); /* or all of it is kept from before, on the stack */
	barrier_var(ct);
	pc_ct6_key_at(&set->key[way], t, ct->back);
	set->ct[way] = *ct;
	return pc_new_publish(&set->head, way, before, tag, now);
}

/* Whether the way has the entry of the tuple. */
static __always_inline bool pc_new_has(const struct pc_ct6_key *key, const struct pc_tuple *t,
				       bool back)
{
	struct pc_key_ends ends = pc_key_ends_of(t, back);

	return pc_addr_eq(&key->lo_addr, ends.lo) && pc_addr_eq(&key->hi_addr, ends.hi) &&
	       key->lo_port == ends.lo_port && key->hi_port == ends.hi_port &&
	       key->proto == t->proto && key->sub == t->sub;
}

/* Takes the entry of the tuple away, if there is one. */
__noinline int pc_new_drop(const struct pc_tuple *t)
{
	struct pc_new_set *set;
	__u64 hash;
	bool back;
	__u32 tag;

	if (!t)
		return 0;
	back = pc_runs_back(t);
	hash = pc_new_hash(t, back);
	set = pc_new_set_at(hash, t->family);
	if (!set)
		return 0;
	tag = pc_new_tag_of(hash);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PC_NEW_WAYS; i++)
		if (pc_new_word(&set->head, i) == tag && pc_new_has(&set->key[i], t, back))
			pc_new_swap(&set->head, i, tag, 0);
	return 0;
}
