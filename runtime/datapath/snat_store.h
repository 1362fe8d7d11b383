/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* snat_store.h - stores a SNAT entry in a place of its pod's quota.
 * Gives pc_snat_store(). An established connection gives its place to no other: a new owner of the
 * port would get its packets.
 */
#pragma once
#include "snat_state.h"
#include "quota.h"

#define PC_SNAT_PRESSED                                                                            \
	10 /* seconds of silence after which a full quota ends a UDP or ICMP exchange */

/* Only an exchange of the same pod yields: a request and its reply, with no packet expected. */
static __always_inline __u64 pc_snat_yields(const struct pc_seek *seek, const void *there,
					    const void *key)
{
	const struct pc_snat_entry *end = there;
	const struct pc_snat_key *its = key;
	__u64 left = end->expires - seek->now;
	__u32 idle = end->state & PC_CT_REPLIED ? PC_REPLIED : PC_UNREPLIED;

	if (end->device != seek->owner || pc_has_opening(its->proto) ||
	    end->state & PC_SNAT_ESTABLISHED)
		return PC_STAYS;
	return left + (__u64)PC_SNAT_PRESSED * seek->second < (__u64)idle * seek->second ? left
											 : PC_STAYS;
}

/* A new connection's entry, which is too large for the stack. */
struct pc_snat_new {
	struct pc_snat_entry end;
	struct pc_snat_key key;
};
_Static_assert(sizeof(struct pc_snat_new) == 96, "without padding");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_snat_new);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_snat_new SEC(".maps");

/* This CPU's pc_snat_new. Never NULL; the check is for the verifier. */
static __always_inline struct pc_snat_new *pc_snat_new_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pc_snat_new, &zero);
}

enum pc_snat_stored { PC_SNAT_STORED = 0, PC_SNAT_THERE, PC_SNAT_FULL };

/* Stores the entry if its key has none. The verifier checks this function once. */
__noinline int pc_snat_store(const struct pc_snat_key *key, const struct pc_snat_entry *end,
			     __u64 now, __u32 second)
{
	struct pc_room *room = pc_room_here();

	if (!key || !end || !room)
		return PC_SNAT_FULL;
	/* The 6.1 verifier rejects stores through a pointer argument of a function. */
	*(struct pc_snat_key *)room->key = *key;
	*(struct pc_snat_entry *)room->entry = *end;
	room->seek.now = now;
	room->seek.second = second;
	room->seek.owner = end->device ? end->device : PC_OWNER_NODE;
	room->seek.roll = (end->id ^ key->is_out) + (__u32)now;
	room->seek.is_short = PC_QUOTA_SNAT;
	room->seek.full = PC_QUOTA_NONE;
	if (PC_STORE(pc_snat_entries, pc_snat_place, PC_SNAT_ENTRIES, room, struct pc_snat_key,
		     room->entry, pc_snat_yields))
		return PC_SNAT_STORED;
	return room->seek.full ? PC_SNAT_FULL : PC_SNAT_THERE;
}
