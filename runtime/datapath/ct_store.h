/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_store.h - an entry is stored among the new connections, and moves to those that are kept.
 * Gives pc_ct_put(), pc_ct_keep(), pc_ct_touch().
 */
#pragma once
#include "ct_room.h"

/* Stores the room's entry and its direction among the new. Verified once, by itself. */
__noinline int pc_ct_put_new(const struct pc_tuple *t, __u64 now, __u32 second)
{
	struct pc_room *room = pc_room_here();
	struct pc_ct *ct;

	if (!t || !room)
		return false;
	ct = pc_room_ct(room);
	pc_ct_seek(room, now, second, PC_REFUSED_NEW);
	if (t->family == PC_IPV4) {
		ct->back = pc_ct4_key_of((struct pc_ct4_key *)room->key, t);
		return PC_STORE(pc_ct4_new, pc_place4_new, PC_NEW_ENTRIES, room, struct pc_ct4_key,
				ct, pc_ct4_yields) ||
		       !bpf_map_update_elem(&pc_ct4_new, room->key, ct, BPF_EXIST);
	}
	ct->back = pc_ct6_key_of((struct pc_ct6_key *)room->key, t);
	return PC_STORE(pc_ct6_new, pc_place6_new, PC_NEW_ENTRIES, room, struct pc_ct6_key, ct,
			pc_ct6_yields) ||
	       !bpf_map_update_elem(&pc_ct6_new, room->key, ct, BPF_EXIST);
}

/* Stores the entry, which is the room's, and its direction: among the new, or in the place of a
 * kept one that is over, which would hide it. False when there was no room.
 */
static __always_inline bool pc_ct_put(const struct pc_flow *flow, const struct pc_tuple *t,
				      struct pc_ct *ct, bool is_kept)
{
	struct pc_room *room = pc_room_here();
	bool stored;

	if (!room)
		return false;
	if (is_kept && t->family == PC_IPV4) {
		ct->back = pc_ct4_key_of((struct pc_ct4_key *)room->key, t);
		if (!bpf_map_update_elem(&pc_ct4, room->key, ct, BPF_EXIST))
			return true;
	} else if (is_kept) {
		ct->back = pc_ct6_key_of((struct pc_ct6_key *)room->key, t);
		if (!bpf_map_update_elem(&pc_ct6, room->key, ct, BPF_EXIST))
			return true;
	}
	stored = pc_ct_put_new(t, flow->now, flow->second);
	pc_room_tell(room);
	return stored;
}

/* Moves a new entry to where others evict nothing. Verified once, by itself. */
__noinline int pc_ct_move(const struct pc_tuple *t, const struct pc_ct *ct, __u64 now, __u32 second)
{
	struct pc_room *room = pc_room_here();

	if (!t || !ct || !room)
		return false;
	/* 6.1 stores nothing by a pointer that a function was given. */
	*pc_room_ct(room) = *ct;
	ct = pc_room_ct(room);
	pc_ct_seek(room, now, second, PC_REFUSED_KEPT);
	if (t->family == PC_IPV4) {
		pc_ct4_key_of((struct pc_ct4_key *)room->key, t);
		return PC_STORE(pc_ct4, pc_place4, PC_CT4_ENTRIES, room, struct pc_ct4_key, ct,
				pc_ct4_yields) &&
		       !bpf_map_delete_elem(&pc_ct4_new, room->key);
	}
	pc_ct6_key_of((struct pc_ct6_key *)room->key, t);
	return PC_STORE(pc_ct6, pc_place6, PC_CT6_ENTRIES, room, struct pc_ct6_key, ct,
			pc_ct6_yields) &&
	       !bpf_map_delete_elem(&pc_ct6_new, room->key);
}

/* The same; where there is no place it stays. Nothing may use the pointer afterwards. */
static __always_inline bool pc_ct_keep(const struct pc_flow *flow, const struct pc_ct *ct)
{
	bool moved = pc_ct_move(&flow->t, ct, flow->now, flow->second);
	struct pc_room *room = pc_room_here();

	if (room)
		pc_room_tell(room);
	return moved;
}

/* Both ends have spoken, and the first one again: an answer alone may be one to a forged address,
 * and a question with one answer is soon over.
 */
static __always_inline bool pc_ct_is_settled(const struct pc_ct *ct, const struct pc_flow *flow,
					     bool is_reply)
{
	return !is_reply && !flow->opens && ct->state & PC_CT_REPLIED &&
	       !(ct->state & (PC_CT_RESET | PC_CT_FINS | PC_CT_DENIED));
}

/* What a packet that passes does to its entry, which may move: where there was no place it is tried
 * again when a second has passed.
 */
static __always_inline bool pc_ct_touch(const struct pc_ct_at *at, const struct pc_flow *flow,
					bool is_reply)
{
	bool is_written = pc_ct_note(at->ct, flow, is_reply);

	if (at->is_kept || !pc_ct_is_settled(at->ct, flow, is_reply))
		return false;
	if (at->ct->state & PC_CT_TRIED && !is_written)
		return false;
	__sync_fetch_and_or(&at->ct->state, PC_CT_TRIED);
	return pc_ct_keep(flow, at->ct);
}
