/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_room.h - which entry gives its place to another, and to which owner an entry is charged.
 * Gives pc_ct_yields(), pc_room_ct(), pc_ct_seek(). A connection is charged to the end that opened
 * it (quota.h).
 */
#pragma once
#include "ct_state.h"

#define PC_PRESSED 16 /* with a full quota, this fraction of the idle time ends a connection */

_Static_assert(sizeof(struct pc_ct) == sizeof(((struct pc_room *)0)->entry), "it fits");
_Static_assert(sizeof(struct pc_ct6_key) == sizeof(((struct pc_room *)0)->key), "it fits");

static __always_inline struct pc_ct *pc_room_ct(struct pc_room *room)
{
	return (struct pc_ct *)room->entry;
}

static __always_inline __u32 pc_ct_owner(const struct pc_ct *ct)
{
	if (ct->src.ifindex)
		return ct->src.ifindex;
	return ct->state & PC_CT_NODE ? PC_OWNER_NODE : PC_OWNER_EXTERNAL;
}

/* Of live entries, the one with the least value gives its place. New connections give theirs in the
 * order of their times, the owner's own first. Established ones stay, except the owner's idle ones.
 * A denied entry stays: it records in which direction its connection was opened.
 */
static __always_inline __u64 pc_ct_yields(const struct pc_seek *seek, const struct pc_ct *there,
					  __u8 proto, __u8 sub)
{
	__u64 left = there->expires - seek->now, idle;
	bool is_own = pc_ct_owner(there) == seek->owner;

	if (there->state & PC_CT_DENIED)
		return PC_STAYS;
	if (seek->is_short != PC_QUOTA_ESTABLISHED)
		return is_own ? left : left + PC_STAYS_BEHIND_OWN;
	idle = (__u64)pc_idle_seconds(proto, sub, there->state) * seek->second;
	return is_own && left + idle / PC_PRESSED < idle ? left : PC_STAYS;
}

static __always_inline __u64 pc_ct4_yields(const struct pc_seek *seek, const void *there,
					   const void *key)
{
	const struct pc_ct4_key *key4 = key;

	return pc_ct_yields(seek, there, key4->proto, key4->sub);
}

static __always_inline __u64 pc_ct6_yields(const struct pc_seek *seek, const void *there,
					   const void *key)
{
	const struct pc_ct6_key *key6 = key;

	return pc_ct_yields(seek, there, key6->proto, key6->sub);
}

/* Prepares the search for a place of the room's entry. Each second searches at other places. */
static __always_inline void pc_ct_seek(struct pc_room *room, __u64 now, __u32 second,
				       enum pc_quota is_short)
{
	const struct pc_ct *ct = pc_room_ct(room);

	room->seek.now = now;
	room->seek.second = second;
	room->seek.owner = pc_ct_owner(ct);
	room->seek.roll = ct->flow_id + (__u32)now * 0x9e3779b1U;
	room->seek.is_short = is_short;
	room->seek.full = PC_QUOTA_NONE;
}
