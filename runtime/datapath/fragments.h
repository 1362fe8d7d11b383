/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* fragments.h - later fragments follow the verdict of their first (semantics A27).
 * Only the first has ports. It is recorded once it has passed; others without a record are dropped.
 */
#pragma once
#include "drops.h"
#include "quota.h"

#define PC_FRAG_ENTRIES 16384
#define PC_FRAG_IDLE    30ULL /* seconds; Linux's reassembly timeout */

/* A datagram without a passed first fragment. SENT_ON: later ones are in reassembly (reassembly.h).
 * RETURNED: all are in order. SEEN: its first one was at an uplink, for no Service.
 */
enum pc_reasm_state { PC_REASM_NONE = 0, PC_REASM_SENT_ON, PC_REASM_RETURNED, PC_REASM_SEEN };

#define PC_FRAG_REPLY 0x80000000 /* to the source; backend numbers do not use this bit */

struct pc_frag4_key {
	__be32 saddr, daddr;
	__be32 id;
	__u8 proto;
	__u8 zero[3];
};

struct pc_frag6_key {
	struct pc_addr6 saddr, daddr;
	__be32 id;
	__u8 proto;
	__u8 zero[3];
};

struct pc_frag {
	__u64 expires;
	__u32 epoch;
	__u32 backend; /* by which later fragments are translated, with PC_FRAG_REPLY; 0: none */
	__u32 node;    /* the node to which or by which they are forwarded */
	__u32 reasm;   /* enum pc_reasm_state; if not 0, no first fragment has passed */
	__u32 owner;   /* the sender, as in quota.h */
	__u32 zero;
};
_Static_assert(sizeof(struct pc_frag) == 32, "without hidden padding");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_FRAG_ENTRIES);
	__type(key, struct pc_frag4_key);
	__type(value, struct pc_frag);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_frag4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_FRAG_ENTRIES);
	__type(key, struct pc_frag6_key);
	__type(value, struct pc_frag);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_frag6 SEC(".maps");

PC_PLACES(pc_frag_place4, PC_FRAG_ENTRIES, struct pc_frag4_key);
PC_PLACES(pc_frag_place6, PC_FRAG_ENTRIES, struct pc_frag6_key);

static __always_inline struct pc_addr6 pc_frag_daddr(const struct pc_flow *flow)
{
	if (flow->nat.backend)
		return flow->nat.daddr;
	return flow->is_reply ? flow->tuple.saddr : flow->tuple.daddr;
}

/* In the packet's own direction, before translation: t may already be turned to the flow's
 * direction, or translated.
 */
static __always_inline struct pc_frag4_key pc_frag4_key_of(const struct pc_flow *flow)
{
	return (struct pc_frag4_key){
	    .saddr = flow->is_reply ? flow->tuple.daddr.word[0] : flow->tuple.saddr.word[0],
	    .daddr = pc_frag_daddr(flow).word[0],
	    .id = flow->packet.frag_id,
	    .proto = flow->packet.frag_proto,
	};
}

static __always_inline struct pc_frag6_key pc_frag6_key_of(const struct pc_flow *flow)
{
	return (struct pc_frag6_key){
	    .saddr = flow->is_reply ? flow->tuple.daddr : flow->tuple.saddr,
	    .daddr = pc_frag_daddr(flow),
	    .id = flow->packet.frag_id,
	    .proto = flow->packet.frag_proto,
	};
}

/* The sender's oldest datagram gives its place first. */
static __always_inline __u64 pc_frag_yields(const struct pc_seek *seek, const void *there,
					    const void *key)
{
	const struct pc_frag *frag = there;
	__u64 left = frag->expires - seek->now;

	(void)key;
	return frag->owner == seek->owner ? left : left + PC_STAYS_BEHIND_OWN;
}

static __always_inline bool pc_frag_store(struct pc_room *room, const struct pc_flow *flow)
{
	struct pc_frag *frag = (struct pc_frag *)room->entry;

	if (flow->tuple.family == PC_IPV4) {
		*(struct pc_frag4_key *)room->key = pc_frag4_key_of(flow);
		return !bpf_map_update_elem(&pc_frag4, room->key, frag, BPF_EXIST) ||
		       PC_STORE(pc_frag4, pc_frag_place4, PC_FRAG_ENTRIES, room,
				struct pc_frag4_key, frag, pc_frag_yields);
	}
	*(struct pc_frag6_key *)room->key = pc_frag6_key_of(flow);
	return !bpf_map_update_elem(&pc_frag6, room->key, frag, BPF_EXIST) ||
	       PC_STORE(pc_frag6, pc_frag_place6, PC_FRAG_ENTRIES, room, struct pc_frag6_key, frag,
			pc_frag_yields);
}

/* Prepares the room for the search for a datagram's place. */
static __always_inline void pc_frag_seek(struct pc_room *room, const struct pc_flow *flow,
					 __u32 sender)
{
	room->seek.now = flow->now;
	room->seek.second = flow->second;
	room->seek.owner = sender;
	room->seek.roll = flow->packet.frag_id ^ bpf_ntohl(flow->packet.frag_id) ^ (__u32)flow->now;
	room->seek.is_short = PC_QUOTA_FRAGMENTS;
	room->seek.full = PC_QUOTA_NONE;
}

/* Records a datagram by its untranslated addresses: its first fragment has passed, or the datagram
 * is sent to reassembly. `sender` is the sender's device. False when there is no room. A separate
 * function, for its own stack frame.
 */
__noinline int pc_frag_put(const struct pc_flow *flow, __u32 reasm, __u32 sender)
{
	struct pc_room *room = pc_room_here();
	struct pc_frag *frag;
	bool stored;

	if (!flow || !room)
		return false;
	frag = (struct pc_frag *)room->entry;
	frag->expires = flow->now + PC_FRAG_IDLE * flow->second;
	frag->epoch = reasm ? 0 : flow->epoch;
	frag->backend = reasm ? 0 : flow->action.frag_backend;
	frag->node = reasm ? 0 : flow->action.node;
	frag->reasm = reasm;
	frag->owner = sender;
	frag->zero = 0;
	pc_frag_seek(room, flow, sender);
	stored = pc_frag_store(room, flow);
	pc_room_tell(room);
	return stored;
}

static __always_inline __u32 pc_frag_sender(const struct pc_flow *flow)
{
	return flow->is_reply ? flow->dst.ifindex : flow->src.ifindex;
}

/* Called for every packet that passes, once its ends are known; skips unfragmented packets. */
static __always_inline void pc_frag_record(const struct pc_flow *flow)
{
	if (flow->packet.fragment == PC_FRAG_FIRST)
		pc_frag_put(flow, PC_REASM_NONE, pc_frag_sender(flow));
}

static __always_inline const struct pc_frag *pc_frag_of(const struct pc_flow *flow)
{
	struct pc_frag4_key key4;
	struct pc_frag6_key key6;

	if (flow->tuple.family == PC_IPV4) {
		key4 = pc_frag4_key_of(flow);
		return bpf_map_lookup_elem(&pc_frag4, &key4);
	}
	key6 = pc_frag6_key_of(flow);
	return bpf_map_lookup_elem(&pc_frag6, &key6);
}

/* The record of the first fragment; NULL if that one has not passed. */
static __always_inline const struct pc_frag *pc_frag_first(const struct pc_flow *flow)
{
	const struct pc_frag *first = pc_frag_of(flow);

	if (!first || first->reasm || first->epoch != flow->epoch || first->expires <= flow->now)
		return 0;
	return first;
}
