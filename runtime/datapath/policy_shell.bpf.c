/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* policy_shell.bpf.c - the policy program without a policy, for machines without clang.
 * It is kept as LLVM bitcode. The LLVM backend defines the
 * functions below, replaces placeholder numbers by the sizes of
 * the maps, and lets the optimiser remove all that is not used.
 */
#define PC_RULES         2047934465 /* unique placeholders, which the backend replaces by sizes */
#define PC_ENDPOINTS     2047934466
#define PC_NODES         2047934467
#define PC_IN_CELLS      2047934468
#define PC_IN_BUCKETS    2047934469
#define PC_IN_USUAL      2047934470
#define PC_IN_ROOT4      2047934471
#define PC_IN_CIDR4      2047934472
#define PC_IN_CIDR6      2047934473
#define PC_EG_CELLS      2047934474
#define PC_EG_BUCKETS    2047934475
#define PC_EG_USUAL      2047934476
#define PC_EG_ROOT4      2047934477
#define PC_EG_CIDR4      2047934478
#define PC_EG_CIDR6      2047934479
#define PC_COUNTED_WORDS 2
#define PC_AT_SOCKETS    1
#define PC_IS_COUNTED    pc_constant(PC_INGRESS, PC_K_IS_COUNTED)
#define PC_TOLD_APART    pc_constant(PC_INGRESS, PC_K_TOLD_APART)
#define PC_REJECTS       (pc_constant(PC_INGRESS, PC_K_EFFECTS) & PC_EFFECT_REJECT)
#define PC_LIMITS        (pc_constant(PC_INGRESS, PC_K_EFFECTS) & PC_EFFECT_LIMIT)
#define PC_LOGS          (pc_constant(PC_INGRESS, PC_K_EFFECTS) & PC_EFFECT_LOG)
#define PC_OWN_NODES     (pc_constant(PC_INGRESS, PC_K_EFFECTS) & PC_EFFECT_OWN_NODE)

#include "policy_words.h"

enum pc_side { PC_INGRESS = 0, PC_EGRESS = 1 };

/* What is known when a policy is compiled; from PC_K_IS_USED on, of one side. */
enum pc_known {
	PC_K_IS_COUNTED,
	PC_K_TOLD_APART,
	PC_K_ROUNDS,
	PC_K_FANS,
	PC_K_EFFECTS,
	PC_K_IS_USED,
	PC_K_ROW, /* index of the class's word that holds its row */
	PC_K_COLUMN4,
	PC_K_COLUMN6,
	PC_K_IS_DENSE,
	PC_K_ROWS,
	PC_K_COLUMNS,
	PC_K_BUCKETS,
	PC_K_LAYOUT4, /* enum pc_layout */
	PC_K_SHIFT4,  /* of an address, as index of pc_root4; 0: none */
	PC_K_ROOT4,
	PC_K_ROUNDS4,
	PC_K_FANS4, /* pc_root4 leads to searches of the address's low half */
	PC_K_LAYOUT6,
	PC_K_ROOT6,
	PC_K_ROUNDS6_0,
	PC_K_ROUNDS6_1,
	PC_K_ROUNDS6_2,
	PC_K_ROUNDS6_3,
};

enum pc_layout { PC_BY_CODE = 0, PC_BY_TREE = 1, PC_BY_TRIE = 2 };

/* The backend defines these. A diagram that is not in code gives PC_NOTHING. */
__u32 pc_constant(enum pc_side side, enum pc_known which);
__u32 pc_diagram(__u32 word, __u32 service);
__u32 pc_column4(enum pc_side side, __u32 address);
__u32 pc_column6(enum pc_side side, __u64 high, __u64 low);

#include "service_key.h"

struct pc_class {
	__u32 word[8];
};

PC_TABLE(pc_class, PC_ENDPOINTS, struct pc_class);
PC_TABLE(pc_nodes, PC_NODES, struct pc_node);
PC_TABLE(pc_cells_in, PC_IN_CELLS, __u32);
PC_TABLE(pc_cells_eg, PC_EG_CELLS, __u32);
PC_TABLE(pc_buckets_in, PC_IN_BUCKETS, struct pc_bucket);
PC_TABLE(pc_buckets_eg, PC_EG_BUCKETS, struct pc_bucket);
PC_TABLE(pc_usual_in, PC_IN_USUAL, __u32);
PC_TABLE(pc_usual_eg, PC_EG_USUAL, __u32);
PC_TABLE(pc_root4_in, PC_IN_ROOT4, __u32);
PC_TABLE(pc_root4_eg, PC_EG_ROOT4, __u32);
PC_TRIE(pc_cidr4_in, PC_IN_CIDR4, struct pc_cidr4_key);
PC_TRIE(pc_cidr4_eg, PC_EG_CIDR4, struct pc_cidr4_key);
PC_TRIE(pc_cidr6_in, PC_IN_CIDR6, struct pc_cidr6_key);
PC_TRIE(pc_cidr6_eg, PC_EG_CIDR6, struct pc_cidr6_key);

static __always_inline __u32 trie4(enum pc_side side, __be32 address)
{
	struct pc_cidr4_key key = {.length = 32, .address = address};
	__u32 *column;

	if (side == PC_INGRESS)
		column = bpf_map_lookup_elem(&pc_cidr4_in, &key);
	else
		column = bpf_map_lookup_elem(&pc_cidr4_eg, &key);
	return column ? *column : 0;
}

static __always_inline __u32 trie6(enum pc_side side, const struct pc_addr6 *address)
{
	struct pc_cidr6_key key = {.length = 128, .address = *address};
	__u32 *column;

	if (side == PC_INGRESS)
		column = bpf_map_lookup_elem(&pc_cidr6_in, &key);
	else
		column = bpf_map_lookup_elem(&pc_cidr6_eg, &key);
	return column ? *column : 0;
}

static __always_inline __u32 tree4(enum pc_side side, __u32 address)
{
	__u32 word = pc_constant(side, PC_K_ROOT4);
	__u32 shift = pc_constant(side, PC_K_SHIFT4);
	int rounds = pc_constant(side, PC_K_ROUNDS4);

	if (shift && side == PC_INGRESS)
		word = pc_word_at(&pc_root4_in, address >> shift);
	else if (shift)
		word = pc_word_at(&pc_root4_eg, address >> shift);
	if (pc_constant(side, PC_K_FANS4))
		return pc_column_of(pc_search_fan(&pc_nodes, word, address & 0xffff, rounds));
	return pc_column_of(pc_search(&pc_nodes, word, address, rounds));
}

static __always_inline __u32 tree6(enum pc_side side, const struct pc_addr6 *address)
{
	return pc_column_of(
	    pc_search6(&pc_nodes, pc_constant(side, PC_K_ROOT6), address,
		       pc_constant(side, PC_K_ROUNDS6_0), pc_constant(side, PC_K_ROUNDS6_1),
		       pc_constant(side, PC_K_ROUNDS6_2), pc_constant(side, PC_K_ROUNDS6_3)));
}

static __always_inline __u32 outside(enum pc_side side, const struct pc_addr6 *address, __u8 family)
{
	__u32 layout = pc_constant(side, family == PC_IPV4 ? PC_K_LAYOUT4 : PC_K_LAYOUT6);

	if (family == PC_IPV4) {
		if (layout == PC_BY_TRIE)
			return trie4(side, address->word[0]);
		if (layout == PC_BY_TREE)
			return tree4(side, bpf_ntohl(address->word[0]));
		return pc_column4(side, bpf_ntohl(address->word[0]));
	}
	if (layout == PC_BY_TRIE)
		return trie6(side, address);
	if (layout == PC_BY_TREE)
		return tree6(side, address);
	return pc_column6(side, pc_addr6_high(address), pc_addr6_low(address));
}

static __always_inline __u32 cell(enum pc_side side, __u32 row, __u32 column)
{
	__u32 rows = pc_constant(side, PC_K_ROWS), columns = pc_constant(side, PC_K_COLUMNS);
	__u32 buckets = pc_constant(side, PC_K_BUCKETS);

	if (pc_constant(side, PC_K_IS_DENSE)) {
		if (side == PC_INGRESS)
			return pc_dense(&pc_cells_in, rows, columns, row, column);
		return pc_dense(&pc_cells_eg, rows, columns, row, column);
	}
	if (side == PC_INGRESS)
		return pc_hashed(&pc_buckets_in, buckets, &pc_usual_in, row, column);
	return pc_hashed(&pc_buckets_eg, buckets, &pc_usual_eg, row, column);
}

static __always_inline __u32 pc_verdict_word(enum pc_side side, const struct pc_endpoint *own,
					     const struct pc_endpoint *peer,
					     const struct pc_addr6 *address, __u8 family,
					     __u32 service)
{
	const struct pc_class *class, *theirs;
	__u32 column, word, found;
	int rounds = pc_constant(side, PC_K_ROUNDS);

	if (!pc_constant(side, PC_K_IS_USED))
		return PC_ALLOWED(PC_RULE_NOT_ISOLATED);
	class = bpf_map_lookup_elem(&pc_class, &own->id);
	if (!class)
		return PC_NOTHING;
	if (peer->id) {
		theirs = bpf_map_lookup_elem(&pc_class, &peer->id);
		if (!theirs)
			return PC_NOTHING;
		column = family == PC_IPV4 ? theirs->word[pc_constant(side, PC_K_COLUMN4) & 7]
					   : theirs->word[pc_constant(side, PC_K_COLUMN6) & 7];
	} else {
		column = outside(side, address, family);
	}
	word = cell(side, class->word[pc_constant(side, PC_K_ROW) & 7], column);
	if (word & PC_LEAF)
		return word;
	found = pc_diagram(word, service);
	if (found)
		return found;
	return pc_constant(side, PC_K_FANS) ? pc_search_fans(&pc_nodes, word, service, rounds)
					    : pc_search_service(&pc_nodes, word, service, rounds);
}

static __always_inline __u32 pc_egress(const struct pc_flow *flow, __u32 service)
{
	return pc_verdict_word(PC_EGRESS, &flow->src, &flow->dst, &flow->tuple.daddr,
			       flow->tuple.family, service);
}

static __always_inline __u32 pc_ingress(const struct pc_flow *flow, __u32 service)
{
	return pc_verdict_word(PC_INGRESS, &flow->dst, &flow->src, &flow->tuple.saddr,
			       flow->tuple.family, service);
}

#include "policy_run.h"
