/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* snat_fragments.h - later fragments get the address that SNAT gave their first one.
 * Gives pc_snat_frag_note(), pc_snat_follow(). This table is separate, as the pods' own hooks
 * record the same fragments under the same addresses.
 */
#pragma once
#include "fragments.h"
#include "snat.h"

#define PC_SNAT_FRAGS 4096

/* The packet's untranslated addresses. */
struct pc_snat_frag {
	struct pc_addr6 saddr, daddr;
	__be32 id;
	__u8 family;
	__u8 proto;
	__u8 zero[2];
};
_Static_assert(sizeof(struct pc_snat_frag) == 40, "a map key has no hidden padding");

struct pc_snat_first {
	__u64 expires;
	struct pc_addr6 addr; /* replaces the translated address; may equal it */
	__u32 epoch;
	__u32 owner; /* the sender, as in quota.h */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_SNAT_FRAGS);
	__type(key, struct pc_snat_frag);
	__type(value, struct pc_snat_first);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_snat_frags SEC(".maps");

PC_PLACES(pc_snat_frag_place, PC_SNAT_FRAGS, struct pc_snat_frag);

static __always_inline struct pc_snat_frag pc_snat_frag_of(const struct pc_flow *flow)
{
	return (struct pc_snat_frag){
	    .saddr = flow->tuple.saddr,
	    .daddr = flow->tuple.daddr,
	    .id = flow->packet.frag_id,
	    .family = flow->tuple.family,
	    .proto = flow->packet.frag_proto,
	};
}

/* The sender's oldest datagram gives its place first. */
static __always_inline __u64 pc_snat_frag_yields(const struct pc_seek *seek, const void *there,
						 const void *key)
{
	const struct pc_snat_first *first = there;
	__u64 left = first->expires - seek->now;

	(void)key;
	return first->owner == seek->owner ? left : left + PC_STAYS_BEHIND_OWN;
}

/* For every packet that passes; skips unfragmented ones. `sender` is its device, 0 if external. */
__noinline int pc_snat_frag_note(const struct pc_flow *flow, const struct pc_addr6 *addr,
				 __u32 sender)
{
	struct pc_room *room = pc_room_here();
	struct pc_snat_first *first;
	bool stored;

	if (!flow || !addr || !room || flow->packet.fragment != PC_FRAG_FIRST)
		return 0;
	first = (struct pc_snat_first *)room->entry;
	*(struct pc_snat_frag *)room->key = pc_snat_frag_of(flow);
	first->expires = flow->now + PC_FRAG_IDLE * flow->second;
	first->addr = *addr;
	first->epoch = flow->epoch;
	first->owner = sender;
	pc_frag_seek(room, flow, sender);
	stored = !bpf_map_update_elem(&pc_snat_frags, room->key, first, BPF_EXIST) ||
		 PC_STORE(pc_snat_frags, pc_snat_frag_place, PC_SNAT_FRAGS, room,
			  struct pc_snat_frag, first, pc_snat_frag_yields);
	pc_room_tell(room);
	return stored;
}

/* PC_STEP_NEW, or PC_STEP_OTHER for a packet that comes in: its first fragment has no record. */
__noinline int pc_snat_follow(struct __sk_buff *skb, struct pc_flow *flow, enum pc_nat_end end)
{
	const struct pc_snat_first *first;
	const struct pc_addr6 *was;
	struct pc_snat_frag key;

	if (!flow)
		return PC_DROP_FRAGMENT;
	key = pc_snat_frag_of(flow);
	first = bpf_map_lookup_elem(&pc_snat_frags, &key);
	if (!first || first->expires <= flow->now || first->epoch != flow->epoch)
		return end == PC_NAT_DST ? PC_STEP_OTHER : PC_STEP_NEW;
	was = end == PC_NAT_SRC ? &flow->tuple.saddr : &flow->tuple.daddr;
	if (pc_addr_eq(was, &first->addr))
		return end == PC_NAT_DST ? PC_STEP_OTHER
					 : PC_PASS; /* a packet of the node itself */
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	return pc_nat_addr(skb, flow, end, was, &first->addr) ? PC_PASS : PC_DROP_MALFORMED;
}
