/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* quota.h - how much of a table each pod may fill, and what it was refused.
 * Gives PC_PLACES(), PC_STORE(), struct pc_room, pc_refuse(). Why:
 * docs/decisions/0046-quotas-by-place.md
 *
 * Each entry of a table has a place in an array beside it, which holds the entry's key. Places are
 * in groups of eight. A pod may use one place of each group, as its device says: so it fills an
 * eighth of the table at most, and no counter has to be right. Clients outside share half of the
 * places, and the node's own connections the other half.
 */
#pragma once
#include "flow.h"

#define PC_OWNER_OUTSIDE 0 /* in the place of a pod's device */
#define PC_OWNER_NODE    1 /* loopback, as PC_HOST_DEVICE */

#define PC_GROUP        4 /* places */
#define PC_PLACES_TRIED 8
#define PC_STAYS        (~0ULL)      /* an entry that gives its place to no other */
#define PC_OTHERS       (1ULL << 48) /* more ticks than any entry lives */

/* `turn` is odd while a CPU gives the place to another entry. */
#define PC_PLACES(name, entries, key_type)                                                         \
	struct name##_at {                                                                         \
		__u32 turn;                                                                        \
		key_type key;                                                                      \
	};                                                                                         \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, entries);                                                      \
		__type(key, __u32);                                                                \
		__type(value, struct name##_at);                                                   \
		__uint(pinning, LIBBPF_PIN_BY_NAME);                                               \
	} name SEC(".maps")

/* What an owner was refused, or lost to a newer one of its own. Status reads the names from BTF. */
enum pc_refusal {
	PC_REFUSED_NONE = 0,
	PC_REFUSED_NEW,       /* a connection that was not answered yet gave its place */
	PC_REFUSED_KEPT,      /* an established connection got no place in the table that is safe */
	PC_REFUSED_IDLE,      /* an established connection that was idle gave its place */
	PC_REFUSED_FRAGMENTS, /* a datagram whose fragments are not all here gave its place */
	PC_REFUSED_SNAT,      /* a connection got no port, or no place, to leave the cluster */
	PC_REFUSED_EVENTS,    /* an event was not written */
	PC_REFUSALS
};

#define PC_REFUSED_ENTRIES 16384

struct pc_refused_key {
	__u32 device; /* of the pod, or PC_OWNER_* */
	__u32 what;   /* enum pc_refusal */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PC_REFUSED_ENTRIES);
	__type(key, struct pc_refused_key);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_refused SEC(".maps");

/* Counts one refusal. Verified once, by itself. */
__noinline int pc_refuse(__u32 device, __u32 what)
{
	struct pc_refused_key key = {.device = device, .what = what};
	__u64 *count = bpf_map_lookup_elem(&pc_refused, &key), one = 1;

	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&pc_refused, &key, &one, BPF_NOEXIST);
	return 0;
}

/* What a place is looked for with. */
struct pc_seek {
	__u64 now;
	__u32 second;
	__u32 owner;    /* whose quota it takes */
	__u32 roll;     /* where the search begins */
	__u16 is_short; /* enum pc_refusal: what it means that no place is free */
	__u16 refusal;  /* what the search came to */
	__u64 found;    /* how soon the entry at hand gives its place */
	__u64 best;     /* the least of those so far */
	__u32 best_at;  /* where that one is */
	__u32 best_turn;
};
_Static_assert(sizeof(struct pc_seek) == 48, "without padding");

/* What is stored, and how: the stack has no room for it. */
struct pc_room {
	__u64 entry[8];
	__u32 key[10];
	struct pc_tuple front; /* of ct_front.h */
	struct pc_seek seek;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_room);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_room SEC(".maps");

/* That of this CPU. NULL never, but for the verifier. */
static __always_inline struct pc_room *pc_room_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pc_room, &zero);
}

/* Counts what the owner was refused, or has lost. */
static __always_inline void pc_room_tell(const struct pc_room *room)
{
	if (room->seek.refusal)
		pc_refuse(room->seek.owner, room->seek.refusal);
}

/* The next number of a series that begins with any. */
static __always_inline __u32 pc_quota_roll(__u32 roll)
{
	return roll * 1664525 + 1013904223;
}

/* The place that the owner has in the group that a number leads to. */
static __always_inline __u32 pc_quota_place(__u32 owner, __u32 roll, __u32 places)
{
	__u32 group = (__u64)roll * (places / PC_GROUP) >> 32, in; /* the best bits are high */

	if (owner <= PC_OWNER_NODE)
		in = (roll >> 8 & 1) << 1 | owner;
	else
		in = ((owner ^ group * 0x85ebca6bU) * 0x9e3779b1U) >> 30;
	return group * PC_GROUP + (in & (PC_GROUP - 1));
}

/* How soon an entry that goes on gives its place: the one with the least does, PC_STAYS never. */
typedef __u64 pc_yields(const struct pc_seek *seek, const void *there, const void *key);

/* Takes a place, which stays locked. What had it is deleted. NULL: all that were tried stay, or
 * another CPU was first. Entries of the table begin with the tick at which they expire. What is
 * compared is kept in memory, of which the verifier knows nothing: the ways through a round are one
 * where the next begins.
 */
static __always_inline __u32 *pc_place_take(void *table, void *places, __u32 n,
					    struct pc_seek *seek, pc_yields *yields)
{
	__u32 roll = seek->roll, at, turn, best_turn, tried = 0, *place;
	volatile struct pc_seek *seen = seek;
	const __u64 *there;
	__u64 found, best;

	seen->best = PC_STAYS;

	/* Linux 6.1 takes no loop that falls through to its beginning. Compilers make one where
	 * they load a register there, so none is free at that place.
	 */
#pragma clang loop unroll(disable)
	do {
		asm volatile("" ::: "r0", "r1", "r2", "r3", "r4", "r5");
		roll = pc_quota_roll(roll);
		at = pc_quota_place(seek->owner, roll, n);
		place = bpf_map_lookup_elem(places, &at);
		if (!place)
			return 0;
		turn = *(volatile __u32 *)place;
		found = PC_STAYS;
		if (!(turn & 1)) {
			there = bpf_map_lookup_elem(table, place + 1);
			found = there && *there > seek->now ? yields(seek, there, place + 1) : 0;
		}
		seen->found = found;
		if (seen->found < seen->best) {
			seen->best = seen->found;
			seen->best_at = at;
			seen->best_turn = turn;
		}
		tried++;
	} while (seen->best && tried < PC_PLACES_TRIED);
	best = seen->best;
	seek->refusal = best ? seek->is_short : PC_REFUSED_NONE;
	if (best && best != PC_STAYS && seek->is_short == PC_REFUSED_KEPT)
		seek->refusal = PC_REFUSED_IDLE;
	if (best == PC_STAYS)
		return 0;
	at = seen->best_at;
	best_turn = seen->best_turn;
	place = bpf_map_lookup_elem(places, &at);
	if (!place || __sync_val_compare_and_swap(place, best_turn, best_turn + 1) != best_turn)
		return 0;
	bpf_map_delete_elem(table, place + 1);
	return place;
}

/* The place has the key from now on, or none, and other CPUs may use it. A swap is ordered after
 * the key on every machine.
 */
static __always_inline bool pc_place_give(__u32 *place, const __u32 *key, __u32 words, bool is_used)
{
	__u32 all = -(__u32)is_used;

	for (__u32 i = 0; i < words; i++)
		place[1 + i] = key[i] & all;
	__sync_lock_test_and_set(place, *place + 1);
	return is_used;
}

/* Stores an entry under the room's key in a table that has no other of that key. */
#define PC_STORE(table, places, entries, room, key_type, entry, yields)                            \
	({                                                                                         \
		__u32 *place = pc_place_take(&table, &places, entries, &(room)->seek, yields);     \
		place &&pc_place_give(                                                             \
		    place, (room)->key, sizeof(key_type) / sizeof(__u32),                          \
		    !bpf_map_update_elem(&table, (room)->key, entry, BPF_NOEXIST));                \
	})
