/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* masq_fragments.h - later fragments get the address that their first one got.
 * Gives pc_masq_frag_note(), pc_masq_follow(). A table of its own, as what pods send and get is
 * recorded by their own hooks as well, under the same addresses.
 */
#pragma once
#include "fragments.h"
#include "masq.h"

#define PC_MASQ_FRAGS 4096

/* As the packet came. */
struct pc_masq_frag {
	struct pc_addr6 saddr, daddr;
	__be32 id;
	__u8 family;
	__u8 proto;
	__u8 zero[2];
};
_Static_assert(sizeof(struct pc_masq_frag) == 40, "a map key has no hidden padding");

struct pc_masq_first {
	__u64 expires;
	struct pc_addr6 addr; /* in the place of the one that is translated; or the same */
	__u32 epoch;
	__u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PC_MASQ_FRAGS);
	__type(key, struct pc_masq_frag);
	__type(value, struct pc_masq_first);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_masq_frags SEC(".maps");

static __always_inline struct pc_masq_frag pc_masq_frag_of(const struct pc_flow *flow)
{
	return (struct pc_masq_frag){
	    .saddr = flow->t.saddr,
	    .daddr = flow->t.daddr,
	    .id = flow->frag_id,
	    .family = flow->t.family,
	    .proto = flow->frag_proto,
	};
}

/* For every packet that passes; does nothing for a whole one. */
__noinline int pc_masq_frag_note(const struct pc_flow *flow, const struct pc_addr6 *addr)
{
	struct pc_masq_first first = {};
	struct pc_masq_frag key;

	if (!flow || !addr || flow->fragment != PC_FRAG_FIRST)
		return 0;
	key = pc_masq_frag_of(flow);
	first.addr = *addr;
	first.epoch = flow->epoch;
	first.expires = flow->now + PC_FRAG_IDLE * flow->second;
	return bpf_map_update_elem(&pc_masq_frags, &key, &first, BPF_ANY);
}

/* PC_MASQ_NEW, PC_MASQ_NOT of what comes in: nothing is known of its first one. */
__noinline int pc_masq_follow(struct __sk_buff *skb, struct pc_flow *flow, enum pc_nat_end end)
{
	const struct pc_masq_first *first;
	const struct pc_addr6 *was;
	struct pc_masq_frag key;

	if (!flow)
		return PC_DROP_FRAGMENT;
	key = pc_masq_frag_of(flow);
	first = bpf_map_lookup_elem(&pc_masq_frags, &key);
	if (!first || first->expires <= flow->now || first->epoch != flow->epoch)
		return end == PC_NAT_DST ? PC_MASQ_NOT : PC_MASQ_NEW;
	was = end == PC_NAT_SRC ? &flow->t.saddr : &flow->t.daddr;
	if (pc_addr_eq(was, &first->addr))
		return end == PC_NAT_DST ? PC_MASQ_NOT : PC_PASS; /* the node's own */
	flow->partial = pc_partial_of(skb, flow);
	return pc_nat_addr(skb, flow, end, was, &first->addr) ? PC_PASS : PC_DROP_MALFORMED;
}
