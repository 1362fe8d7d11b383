/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_store.h - stores an entry in the new-connection table, and moves it to the established table.
 * Gives pc_ct_put(), pc_ct_establish(), pc_ct_touch().
 */
#pragma once
#include "ct_room.h"

/* Stores the room's entry and direction in the new-connection table. Verified once, on its own. */
__noinline int pc_ct_put_new(const struct pc_tuple *t, __u64 now, __u32 second)
{
	struct pc_room *room = pc_room_here();
	struct pc_ct *ct;

	if (!t || !room)
		return false;
	ct = pc_room_ct(room);
	pc_ct_seek(room, now, second, PC_QUOTA_NEW);
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

/* Stores the room's entry and its direction in the new-connection table, or in place of an ended
 * entry of the established table, which would hide it. False when there was no room.
 */
static __always_inline bool pc_ct_put(const struct pc_flow *flow, const struct pc_tuple *t,
				      struct pc_ct *ct, bool is_established)
{
	struct pc_room *room = pc_room_here();
	bool stored;

	if (!room)
		return false;
	if (is_established && t->family == PC_IPV4) {
		ct->back = pc_ct4_key_of((struct pc_ct4_key *)room->key, t);
		if (!bpf_map_update_elem(&pc_ct4, room->key, ct, BPF_EXIST))
			return true;
	} else if (is_established) {
		ct->back = pc_ct6_key_of((struct pc_ct6_key *)room->key, t);
		if (!bpf_map_update_elem(&pc_ct6, room->key, ct, BPF_EXIST))
			return true;
	}
	stored = pc_ct_put_new(t, flow->now, flow->second);
	pc_room_tell(room);
	return stored;
}

/* Moves a new entry to the established table, which evicts nothing. Verified once, on its own. */
__noinline int pc_ct_move(const struct pc_tuple *t, const struct pc_ct *ct, __u64 now, __u32 second)
{
	struct pc_room *room = pc_room_here();

	if (!t || !ct || !room)
		return false;
	/* The 6.1 verifier rejects stores through a pointer argument of a function. */
	*pc_room_ct(room) = *ct;
	ct = pc_room_ct(room);
	pc_ct_seek(room, now, second, PC_QUOTA_ESTABLISHED);
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

/* The same. Without a free place the entry stays. Its pointer must not be used afterwards. */
static __always_inline bool pc_ct_establish(const struct pc_flow *flow, const struct pc_ct *ct)
{
	bool moved = pc_ct_move(&flow->tuple, ct, flow->now, flow->second);
	struct pc_room *room = pc_room_here();

	if (room)
		pc_room_tell(room);
	return moved;
}

/* Both ends have sent, and the first end again. A reply alone may go to a forged address, and a
 * request with one reply ends soon.
 */
static __always_inline bool pc_ct_is_settled(const struct pc_ct *ct, const struct pc_flow *flow,
					     bool is_reply)
{
	return !is_reply && !flow->packet.is_opening && ct->state & PC_CT_REPLIED &&
	       !(ct->state & (PC_CT_RESET | PC_CT_FINS | PC_CT_DENIED));
}

/* Updates the entry for a packet that passes. The entry may move to the established table. Without
 * a free place there, the move is tried again a second later.
 */
static __always_inline bool pc_ct_touch(const struct pc_ct_at *at, const struct pc_flow *flow,
					bool is_reply)
{
	bool is_written = pc_ct_note(at->ct, flow, is_reply);

	if (at->is_established || !pc_ct_is_settled(at->ct, flow, is_reply))
		return false;
	if (at->ct->state & PC_CT_TRIED && !is_written)
		return false;
	__sync_fetch_and_or(&at->ct->state, PC_CT_TRIED);
	return pc_ct_establish(flow, at->ct);
}
