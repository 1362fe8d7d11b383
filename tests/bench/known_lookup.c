/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* known_lookup.c - the entry of a known packet, B_STEPS times a run: in the conntrack table, and in
 * an array whose slots are chosen by an inline hash (open addressing, linear probing).
 */
#include "ct_map.h"

#define B_FLOWS  131072
#define B_SLOTS  (2 * B_FLOWS) /* at most half of them are used */
#define B_PROBES 32

struct b_flow {
	struct pc_tuple tuple;
};

#include "chosen_flows.h"

/* `version` is odd while a CPU gives the slot to another connection, and 0 until the first one. */
struct b_slot {
	__u32 version;
	union {
		struct pc_ct4_key key4;
		struct pc_ct6_key key6;
		__u32 words[15];
	};
	struct pc_ct ct;
};
_Static_assert(sizeof(struct b_slot) == 128, "two cache lines");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, B_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE); /* the kernel aligns these to pages */
	__type(key, __u32);
	__type(value, struct b_slot);
} b_slots SEC(".maps");

static __always_inline __u32 b_mixed(const __u64 *key, int words)
{
	__u64 mixed = 0;

	for (int i = 0; i < words; i++) {
		mixed = (mixed ^ key[i]) * 0x9e3779b97f4a7c15ULL;
		mixed ^= mixed >> 32;
	}
	return mixed;
}

static __always_inline bool b_equal(const __u32 *one, const __u32 *other, int words)
{
	__u32 differs = 0;

	for (int i = 0; i < words; i++)
		differs |= one[i] ^ other[i];
	return !differs;
}

/* The key's slot, or the first free one after it. */
static __always_inline struct b_slot *b_probe(const __u32 *key, int words)
{
	__u32 hash = b_mixed((const __u64 *)key, words / 2), at;
	struct b_slot *slot;

#pragma clang loop unroll(disable)
	for (int i = 0; i < B_PROBES; i++) {
		at = (hash + i) & (B_SLOTS - 1);
		slot = bpf_map_lookup_elem(&b_slots, &at);
		if (!slot || !slot->version || b_equal(slot->words, key, words))
			return slot;
	}
	return 0;
}

static __always_inline struct b_slot *b_slot_of(const struct pc_tuple *tuple)
{
	union {
		struct pc_ct4_key key4;
		struct pc_ct6_key key6;
		__u32 words[10];
		__u64 aligned;
	} key;

	if (tuple->family == PC_IPV4) {
		pc_ct4_key_of(&key.key4, tuple);
		return b_probe(key.words, 4);
	}
	pc_ct6_key_of(&key.key6, tuple);
	return b_probe(key.words, 10);
}

/* The version is compared after the entry was read. */
static __always_inline __u32 b_by_slot(struct __sk_buff *skb, const struct b_flow *flow)
{
	struct b_slot *slot = b_slot_of(&flow->tuple);
	__u32 version, is_there;

	(void)skb;
	if (!slot)
		return 0;
	version = *(volatile __u32 *)&slot->version;
	if (!version || version & 1)
		return 0;
	is_there = slot->ct.flow_id && slot->ct.expires;
	return *(volatile __u32 *)&slot->version == version && is_there;
}

B_PROGRAM(b_none, b_read)
B_PROGRAM(b_hash, b_by_hash)
B_PROGRAM(b_open, b_by_slot)

/* Records flows from the first on, in both tables. */
SEC("tc") int b_fill(struct __sk_buff *skb)
{
	struct pc_ct entry = {.flow_id = 1, .expires = 1};
	struct b_range *range = b_ranged();
	const struct b_flow *flow;
	struct pc_ct4_key key4;
	struct pc_ct6_key key6;
	struct b_slot *slot;
	__u32 filled = 0;

	(void)skb;
	if (!range)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < B_STEPS; i++) {
		flow = b_at(range->first + i);
		if (!flow)
			break;
		slot = b_slot_of(&flow->tuple);
		if (!slot)
			continue;
		if (flow->tuple.family == PC_IPV4) {
			pc_ct4_key_of(&key4, &flow->tuple);
			slot->key4 = key4;
			bpf_map_update_elem(&pc_ct4, &key4, &entry, BPF_ANY);
		} else {
			pc_ct6_key_of(&key6, &flow->tuple);
			slot->key6 = key6;
			bpf_map_update_elem(&pc_ct6, &key6, &entry, BPF_ANY);
		}
		slot->ct = entry;
		slot->version = 2;
		filled++;
	}
	return filled;
}

char b_license[] SEC("license") = "Dual BSD/GPL";
