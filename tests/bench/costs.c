/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* costs.c - one operation of the policy program a run, with keys nobody can guess.
 * SIZE is in elements: words, nodes, buckets or prefixes. TREE is a file with `tree(key)` in code.
 */
#include "policy_words.h"

#define FAN_KINDS (SIZE > 4096 ? 6 : 1) /* so that it has as many lines */

PC_TABLE(c_words, SIZE, __u32);
PC_TABLE(c_nodes, SIZE, struct pc_node);
PC_TABLE(c_buckets, SIZE, struct pc_bucket);
PC_TABLE(c_usual, 64, __u32);
PC_TRIE(c_trie, SIZE, struct pc_cidr4_key);

struct c_state_value {
	__u64 number;
	__u64 mask; /* 0: the same key always */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct c_state_value);
} c_state SEC(".maps");

#include TREE

/* A number that depends on the last answer, so that one run waits for the one before. */
static __always_inline struct c_state_value *next(__u32 *random)
{
	__u32 zero = 0;
	struct c_state_value *state = bpf_map_lookup_elem(&c_state, &zero);

	if (!state)
		return 0;
	state->number = state->number * 6364136223846793005ULL + 1442695040888963407ULL;
	*random = state->number >> 32 & state->mask;
	return state;
}

#define COST(name, answer)                                                                         \
	SEC("tc") int name(struct __sk_buff *skb)                                                  \
	{                                                                                          \
		__u32 random;                                                                      \
		struct c_state_value *state = next(&random);                                       \
                                                                                                   \
		(void)skb;                                                                         \
		if (!state)                                                                        \
			return 0;                                                                  \
		state->number += (answer);                                                         \
		return 1;                                                                          \
	}

static __always_inline __u32 in_trie(__u32 random)
{
	struct pc_cidr4_key key = {.length = 32, .address = random};
	__u32 *column = bpf_map_lookup_elem(&c_trie, &key);

	return column ? *column : 0;
}

/* The word and the bound of the key are not known to the compiler, as those of a policy are not: it
 * would leave out what the verifier asks for. `mask` has 32 bits.
 */
static __always_inline __u32 in_fan(const struct c_state_value *state, __u32 random)
{
	__u32 nothing = state->mask >> 32;

	return pc_in_fan(&c_nodes, PC_FAN_AT(0, 0, FAN_KINDS) | nothing,
			 random & ((16 * SIZE - 1) | nothing));
}

COST(c_nothing, random & 1)
COST(c_array, pc_word_at(&c_words, random &(SIZE - 1)))
COST(c_node, pc_child(&c_nodes, random &(SIZE - 1), (__u64)(random >> 3) + 1))
COST(c_range, pc_in_range(&c_nodes, PC_NEXT | (random & (4 * SIZE - 1)), random >> 3))
COST(c_fan, in_fan(state, random))
COST(c_bucket, pc_hashed(&c_buckets, SIZE, &c_usual, 1 + (random & 31), 1 + (random >> 5)))
COST(c_lpm, in_trie(random))
COST(c_code, tree(random))

char pc_license[] SEC("license") = "Dual BSD/GPL";
