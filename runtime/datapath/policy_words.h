/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* policy_words.h - words, and the searches that give them (docs/bundle-format.md).
 * The generated policy.bpf.c includes it before its maps and code. Gives the words, the kinds of
 * maps, and the search in nodes, dense tables and buckets. A missing entry leads to PC_NOTHING,
 * which denies.
 */
#pragma once
#include "flow.h"

#define PC_LEAF  0x80000000U /* a result; otherwise a node */
#define PC_ALLOW 0x40000000U /* in a leaf that is a verdict */
#define PC_NEXT  0x40000000U /* in a node: continue with the next 32 bits of the key */
#define PC_FAN   0x20000000U /* cache lines with one word per value of the key's leading bits */
#define PC_ID    0x3fffffffU

#define PC_NOTHING        0U
#define PC_ALLOWED(rule)  (PC_LEAF | PC_ALLOW | (rule))
#define PC_DENIED(rule)   (PC_LEAF | (rule))
#define PC_COLUMN(column) (PC_LEAF | (column))

#define PC_RULE_NOT_ISOLATED 0 /* allowed: no policy selects the end in this direction */
#define PC_RULE_FAIL_CLOSED  1 /* denied: an id without compiled or filled-in policy */

/* Mapped memory starts at a page, so a node or a bucket is exactly one cache line. */
#define PC_TABLE(name, size, of)                                                                   \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, size);                                                         \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__type(key, __u32);                                                                \
		__type(value, of);                                                                 \
	} name SEC(".maps")

#define PC_TRIE(name, size, of)                                                                    \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);                                               \
		__uint(max_entries, size);                                                         \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                              \
		__type(key, of);                                                                   \
		__type(value, __u32); /* column */                                                 \
	} name SEC(".maps")

struct pc_node {
	__u32 lowest[7]; /* the lowest keys of the second child and of later ones */
	__u32 child[8];
	__u32 zero;
};
_Static_assert(sizeof(struct pc_node) == 64, "a node is a cache line");

struct pc_bucket {
	__u64 key[4]; /* row << 32 | column; 0 is free, as no row is 0 */
	__u32 word[4];
	__u32 filled; /* 1; if not, the bucket was never written, and denies */
	__u32 zero[3];
};
_Static_assert(sizeof(struct pc_bucket) == 64, "a bucket is a cache line");

struct pc_cidr4_key {
	__u32 length;
	__be32 address;
};

struct pc_cidr6_key {
	__u32 length;
	struct pc_addr6 address;
};

/* The child whose keys begin at or below the key, counted by subtraction: with unpredictable keys a
 * branch costs more than all seven. `above` is the key plus one, read from a volatile: compilers
 * that see its 32-bit range make branches of it.
 */
static __always_inline __u32 pc_child(void *nodes, __u32 word, __u64 above)
{
	__u32 at = word & PC_ID;
	const struct pc_node *node = bpf_map_lookup_elem(nodes, &at);
	__u64 child = 0;

	if (!node)
		return PC_NOTHING;
#pragma unroll
	for (int i = 0; i < 7; i++)
		child += (node->lowest[i] - above) >> 63;
	return node->child[child & 7];
}

/* Eight rounds reach sixteen million leaves. Unrolled by hand: some compilers would keep a loop.
 */
#define PC_ROUND(at)                                                                               \
	if ((at) < rounds && !(word & (PC_LEAF | PC_NEXT)))                                        \
	word = pc_child(nodes, word, above)

/* One word for the keys of a range, another for all others. Four ranges share a cache line. */
struct pc_range {
	__u32 lowest, span;
	__u32 word[2]; /* inside, outside */
};

#define PC_RANGE_AT(line, slot) (PC_NEXT | (line) << 2 | (slot))

/* Without a branch, as with pc_child(). */
static __always_inline __u32 pc_in_range(void *nodes, __u32 word, __u32 key)
{
	volatile __u32 seen = key;
	__u32 at = (word & PC_ID) >> 2;
	const struct pc_range *range = bpf_map_lookup_elem(nodes, &at);

	if (!range)
		return PC_NOTHING;
	range += word & 3;
	return range->word[((__u64)range->span - (__u32)(seen - range->lowest)) >> 63];
}

/* Searches from a word to a leaf, or to a node that needs the next 32 bits of the key. */
static __always_inline __u32 pc_search(void *nodes, __u32 word, __u32 key, int rounds)
{
	volatile __u64 seen = (__u64)key + 1;
	__u64 above = seen;

	PC_ROUND(0);
	PC_ROUND(1);
	PC_ROUND(2);
	PC_ROUND(3);
	PC_ROUND(4);
	PC_ROUND(5);
	PC_ROUND(6);
	PC_ROUND(7);
	return word;
}

struct pc_line {
	__u32 word[16];
};
_Static_assert(sizeof(struct pc_line) == sizeof(struct pc_node), "lines are in the place of nodes");

#define PC_FAN_AT(line, below, kinds) (PC_FAN | (kinds) << 26 | (below) << 22 | (line))

/* Kinds with keys above those of the fan share the last word. */
static __always_inline __u32 pc_in_fan(void *nodes, __u32 word, __u32 key)
{
	__u32 most = (word >> 26 & 7) << 16, place, at;
	const struct pc_line *line;

	if (key > most)
		key = most;
	place = key >> (word >> 22 & 15);
	at = (word & 0x3fffff) + (place >> 4);
	line = bpf_map_lookup_elem(nodes, &at);
	return line ? line->word[place & 15] : PC_NOTHING;
}

/* The verdict word of a service. Its key is one word, so "next" has another meaning here. */
static __always_inline __u32 pc_search_service(void *nodes, __u32 word, __u32 service, int rounds)
{
	if (!(word & PC_LEAF) && word & PC_NEXT)
		word = pc_in_range(nodes, word, service);
	return pc_search(nodes, word, service, rounds);
}

/* Searches from a possible fan: over a service, or over the low half of an IPv4 address. */
static __always_inline __u32 pc_search_fan(void *nodes, __u32 word, __u32 key, int rounds)
{
	if (!(word & (PC_LEAF | PC_NEXT)) && word & PC_FAN)
		word = pc_in_fan(nodes, word, key);
	return pc_search(nodes, word, key, rounds);
}

/* For services where some diagrams begin with a fan, or with a range that leads to a fan. */
static __always_inline __u32 pc_search_fans(void *nodes, __u32 word, __u32 service, int rounds)
{
	if (!(word & PC_LEAF) && word & PC_NEXT)
		word = pc_in_range(nodes, word, service);
	return pc_search_fan(nodes, word, service, rounds);
}

/* Searches the four words of an IPv6 address, with the number of rounds that each word needs. */
static __always_inline __u32 pc_search6(void *nodes, __u32 word, const struct pc_addr6 *address,
					int r0, int r1, int r2, int r3)
{
	word = pc_search(nodes, word, bpf_ntohl(address->word[0]), r0);
	if (r1 && !(word & PC_LEAF) && word & PC_NEXT)
		word = pc_search(nodes, word & PC_ID, bpf_ntohl(address->word[1]), r1);
	if (r2 && !(word & PC_LEAF) && word & PC_NEXT)
		word = pc_search(nodes, word & PC_ID, bpf_ntohl(address->word[2]), r2);
	if (r3 && !(word & PC_LEAF) && word & PC_NEXT)
		word = pc_search(nodes, word & PC_ID, bpf_ntohl(address->word[3]), r3);
	return word;
}

/* The column that a search found; 0, which fails closed, if it found none. */
static __always_inline __u32 pc_column_of(__u32 word)
{
	return word & PC_LEAF ? word & PC_ID : 0;
}

static __always_inline __u32 pc_word_at(void *table, __u32 index)
{
	const __u32 *word = bpf_map_lookup_elem(table, &index);

	return word ? *word : PC_NOTHING;
}

/* The word of a cell in a dense table, which has every cell. */
static __always_inline __u32 pc_dense(void *cells, __u32 rows, __u32 columns, __u32 row,
				      __u32 column)
{
	if (row >= rows || column >= columns)
		return PC_NOTHING;
	return pc_word_at(cells, row * columns + column);
}

static __always_inline __u32 pc_in_bucket(void *buckets, __u32 at, __u64 key)
{
	const struct pc_bucket *bucket = bpf_map_lookup_elem(buckets, &at);

	if (!bucket)
		return PC_NOTHING;
#pragma unroll
	for (int i = 0; i < 4; i++)
		if (bucket->key[i] == key)
			return bucket->word[i];
	return bucket->filled ? PC_NOTHING : PC_DENIED(PC_RULE_FAIL_CLOSED);
}

/* The word of a cell in a table that holds only cells that differ from their row's usual word. */
static __always_inline __u32 pc_hashed(void *buckets, __u32 n_buckets, void *usual, __u32 row,
				       __u32 column)
{
	__u64 key = (__u64)row << 32 | column;
	__u64 mixed = key * 0x9e3779b97f4a7c15ULL;
	__u32 word;

	if (!row || !column)
		return PC_NOTHING;
	mixed ^= mixed >> 32;
	mixed *= 0xc2b2ae3d27d4eb4fULL;
	word = pc_in_bucket(buckets, mixed >> 32 & (n_buckets - 1), key);
	if (!word)
		word = pc_in_bucket(buckets, (mixed ^ mixed >> 47) & (n_buckets - 1), key);
	if (!word)
		word = pc_word_at(usual, row);
	return word;
}
