/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_new.h - connections that begin: a cache of sets, in which what is used again late goes first.
 * Gives pc_new4_find(), pc_new6_find(); ct_new_put.h writes. Why:
 * docs/decisions/0038-a-cache-of-new-connections.md
 *
 * A key leads to one set, and its tag to one way of that. A word of tags is 0: the way is free;
 * PC_NEW_THERE and a tag: its entry is complete; PC_NEW_TAKEN and a tick: somebody writes it since
 * then, and nobody finds it. Who has found an entry may go on reading it, and write to it, when its
 * way was given to another, as with the kernel's LRU maps, whose elements are used again at once:
 * one packet is taken for another connection's.
 */
#pragma once
#include "ct_entry.h"

#define PC_NEW_SET_BITS 12
#define PC_NEW_SETS     (1 << PC_NEW_SET_BITS)
#define PC_NEW_WAYS     8 /* a flood may fill all; a flow needs its place until it is answered */

#define PC_NEW_THERE 0x80000000U
#define PC_NEW_TAKEN 0x40000000U
#define PC_NEW_TICK  0x3fffffffU

/* What is looked at before any entry. `used` says when, in ticks: at first when it was put. */
struct pc_new_head {
	__u32 tag[PC_NEW_WAYS];
	__u32 used[PC_NEW_WAYS];
};
_Static_assert(sizeof(struct pc_new_head) == 64, "one cache line");

/* Of either family: IPv4 addresses are in the first words. */
struct pc_new_set {
	struct pc_new_head head;
	struct pc_ct6_key key[PC_NEW_WAYS];
	struct pc_ct ct[PC_NEW_WAYS];
};
_Static_assert(sizeof(struct pc_new_set) == 64 * 14, "entries are cache lines");

/* Mapped memory starts at a page, so that a head or an entry is one cache line. */
#define PC_NEW_TABLE(name)                                                                         \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, PC_NEW_SETS);                                                  \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__type(key, __u32);                                                                \
		__type(value, struct pc_new_set);                                                  \
		__uint(pinning, LIBBPF_PIN_BY_NAME);                                               \
	} name SEC(".maps")

PC_NEW_TABLE(pc_ct4_new);
PC_NEW_TABLE(pc_ct6_new);

/* Numbers that nobody else knows, by the loader (runtime/connection_cache.py). */
struct pc_ct_seeds {
	__u64 base;
	__u64 by[10]; /* the words of a key */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_ct_seeds);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_ct_seed SEC(".maps");

static __always_inline const struct pc_ct_seeds *pc_new_seeds(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pc_ct_seed, &zero);
}

/* The parts of a key as numbers: from memory they would be read in other widths than written. */
static __always_inline __u32 pc_key_ports(__be16 lo, __be16 hi)
{
	return lo | (__u32)hi << 16;
}

static __always_inline __u32 pc_key_kind(__u8 proto, __u8 sub)
{
	return proto | (__u32)sub << 8;
}

/* Multilinear hashing: of secret numbers the upper half of the sum is as good as random for any two
 * keys, so that nobody can choose keys for one set (Lemire and Kaser, "Strongly universal string
 * hashing is fast", 2014). What is always zero in keys of IPv4 adds nothing.
 */
static __always_inline __u64 pc_new4_hash(const struct pc_ct_seeds *seed,
					  const struct pc_ct4_key *key)
{
	return seed->base + seed->by[0] * key->lo_addr + seed->by[4] * key->hi_addr +
	       seed->by[8] * pc_key_ports(key->lo_port, key->hi_port) +
	       seed->by[9] * pc_key_kind(key->proto, key->sub);
}

static __always_inline __u64 pc_new6_hash(const struct pc_ct_seeds *seed,
					  const struct pc_ct6_key *key)
{
	__u64 hash = seed->base;

#pragma unroll
	for (int i = 0; i < 4; i++)
		hash += seed->by[i] * key->lo_addr.word[i] + seed->by[4 + i] * key->hi_addr.word[i];
	return hash + seed->by[8] * pc_key_ports(key->lo_port, key->hi_port) +
	       seed->by[9] * pc_key_kind(key->proto, key->sub);
}

static __always_inline __u32 pc_new_set_of(__u64 hash)
{
	return hash >> (64 - PC_NEW_SET_BITS);
}

static __always_inline __u32 pc_new_tag_of(__u64 hash)
{
	return hash >> (64 - PC_NEW_SET_BITS - 31) | PC_NEW_THERE;
}

/* A bit for each way with the tag. No branches, of which each would be a guess. */
static __always_inline __u32 pc_new_same(const struct pc_new_head *head, __u32 tag)
{
	__u64 same = 0, is_it;

#pragma unroll
	for (int i = 0; i < PC_NEW_WAYS; i++) {
		is_it = ((__u64)(head->tag[i] ^ tag) - 1) >> 63;
		barrier_var(is_it); /* or compilers make a branch of it */
		same |= is_it << i;
	}
	return same;
}

/* The first way with the tag; any where there is none. The lowest bit has a place of its own in the
 * product with a de Bruijn sequence.
 */
static __always_inline __u32 pc_new_way(const struct pc_new_head *head, __u32 tag)
{
	__u32 same = pc_new_same(head, tag);

	return 0x56374210 >> (((same & -same) * 0x17 & 0xff) >> 5) * 4 & (PC_NEW_WAYS - 1);
}

/* 0 if they are equal. What is in a set was written as a whole. */
static __always_inline __u64 pc_new4_differs(const struct pc_ct6_key *there,
					     const struct pc_ct4_key *key)
{
	const __u32 *word = (const __u32 *)there;

	return (word[0] ^ key->lo_addr) | (word[4] ^ key->hi_addr) |
	       (word[8] ^ pc_key_ports(key->lo_port, key->hi_port)) |
	       (word[9] ^ pc_key_kind(key->proto, key->sub));
}

static __always_inline __u64 pc_new6_differs(const struct pc_ct6_key *there,
					     const struct pc_ct6_key *key)
{
	const __u32 *word = (const __u32 *)there;
	__u32 differs = 0;

#pragma unroll
	for (int i = 0; i < 4; i++)
		differs |= (word[i] ^ key->lo_addr.word[i]) | (word[4 + i] ^ key->hi_addr.word[i]);
	return differs | (word[8] ^ pc_key_ports(key->lo_port, key->hi_port)) |
	       (word[9] ^ pc_key_kind(key->proto, key->sub));
}

/* The entry of the key, if there is one among the new. */
static __always_inline struct pc_ct *pc_new4_find(const struct pc_ct4_key *key)
{
	const struct pc_ct_seeds *seed = pc_new_seeds();
	struct pc_new_set *set;
	__u32 at, tag, way;
	__u64 hash;

	if (!seed)
		return 0;
	hash = pc_new4_hash(seed, key);
	at = pc_new_set_of(hash);
	tag = pc_new_tag_of(hash);
	set = bpf_map_lookup_elem(&pc_ct4_new, &at);
	if (!set)
		return 0;
	way = pc_new_way(&set->head, tag);
	if (pc_new4_differs(&set->key[way], key) | (set->head.tag[way] ^ tag))
		return 0;
	return &set->ct[way];
}

static __always_inline struct pc_ct *pc_new6_find(const struct pc_ct6_key *key)
{
	const struct pc_ct_seeds *seed = pc_new_seeds();
	struct pc_new_set *set;
	__u32 at, tag, way;
	__u64 hash;

	if (!seed)
		return 0;
	hash = pc_new6_hash(seed, key);
	at = pc_new_set_of(hash);
	tag = pc_new_tag_of(hash);
	set = bpf_map_lookup_elem(&pc_ct6_new, &at);
	if (!set)
		return 0;
	way = pc_new_way(&set->head, tag);
	if (pc_new6_differs(&set->key[way], key) | (set->head.tag[way] ^ tag))
		return 0;
	return &set->ct[way];
}
