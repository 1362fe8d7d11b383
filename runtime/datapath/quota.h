/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* quota.h - how much of a table each pod may fill, and how often its quota was full.
 * Gives PC_PLACES(), PC_STORE(), struct pc_room, pc_quota_count(). Why:
 * docs/decisions/0046-quotas-by-place.md
 *
 * Each entry of a table has a place in an array beside it, which holds the entry's key. Places are
 * in groups of four. A pod may use one place of each group, which a hash of its device selects. So
 * it fills a quarter of the table at most, and no counter has to be right. External clients share
 * half of the places, and the node's own connections the other half.
 */
#pragma once
#include "flow.h"

#define PC_OWNER_EXTERNAL 0 /* instead of a pod's device */
#define PC_OWNER_NODE     1 /* loopback, as PC_HOST_DEVICE */

#define PC_GROUP            4 /* places */
#define PC_PLACES_TRIED     8
#define PC_STAYS            (~0ULL)      /* an entry that never gives its place to another */
#define PC_STAYS_BEHIND_OWN (1ULL << 48) /* added to the stay of another owner's entry */

/* `lock` is odd while a CPU gives the place to another entry, and grows with each such change. */
#define PC_PLACES(name, entries, key_type)                                                         \
	struct name##_at {                                                                         \
		__u32 lock;                                                                        \
		key_type key;                                                                      \
	};                                                                                         \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, entries);                                                      \
		__type(key, __u32);                                                                \
		__type(value, struct name##_at);                                                   \
		__uint(pinning, LIBBPF_PIN_BY_NAME);                                               \
	} name SEC(".maps")

/* What an owner did not get, or lost to its own newer entry, as its quota was full. */
enum pc_quota {
	PC_QUOTA_NONE = 0,
	PC_QUOTA_NEW,         /* an unanswered connection gave its place */
	PC_QUOTA_ESTABLISHED, /* an established connection got no place in the established table */
	PC_QUOTA_IDLE,        /* an idle established connection gave its place */
	PC_QUOTA_FRAGMENTS,   /* a datagram with missing fragments gave its place */
	PC_QUOTA_SNAT,        /* a connection got no SNAT port, or no place in the SNAT table */
	PC_QUOTA_EVENTS,      /* an event was not written */
	PC_QUOTAS
};

#define PC_QUOTA_FULL_ENTRIES 16384

struct pc_quota_full_key {
	__u32 device; /* the pod's, or PC_OWNER_* */
	__u32 what;   /* enum pc_quota */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PC_QUOTA_FULL_ENTRIES);
	__type(key, struct pc_quota_full_key);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_quota_full SEC(".maps");

/* Counts that an owner's quota was full. The verifier checks this function once. */
__noinline int pc_quota_count(__u32 device, __u32 what)
{
	struct pc_quota_full_key key = {.device = device, .what = what};
	__u64 *count = bpf_map_lookup_elem(&pc_quota_full, &key), one = 1;

	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&pc_quota_full, &key, &one, BPF_NOEXIST);
	return 0;
}

/* The parameters and the state of a search for a place. */
struct pc_seek {
	__u64 now;
	__u32 second;
	__u32 owner;     /* the owner whose quota it uses */
	__u32 roll;      /* where the search begins */
	__u16 is_short;  /* enum pc_quota: counted if no place is free */
	__u16 full;      /* enum pc_quota: the result of the search */
	__u64 stay;      /* of the present entry: 0 without one, else 1 + 2 * pc_stay() */
	__u64 lowest;    /* the lowest stay so far */
	__u32 lowest_at; /* the place with that stay */
	__u32 lowest_lock;
};
_Static_assert(sizeof(struct pc_seek) == 48, "without padding");

/* The entry to store, and how: the BPF stack has no room for it. */
struct pc_room {
	__u64 entry[8];
	__u32 key[10];
	struct pc_tuple pre_nat; /* of ct_pre_nat.h */
	struct pc_seek seek;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_room);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_room SEC(".maps");

/* This CPU's pc_room. Never NULL; the check is for the verifier. */
static __always_inline struct pc_room *pc_room_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pc_room, &zero);
}

/* Counts what the owner did not get, or lost. */
static __always_inline void pc_room_tell(const struct pc_room *room)
{
	if (room->seek.full)
		pc_quota_count(room->seek.owner, room->seek.full);
}

/* The next number of a pseudo-random series, from any start. */
static __always_inline __u32 pc_quota_roll(__u32 roll)
{
	return roll * 1664525 + 1013904223;
}

/* The owner's place in the group that a number selects. */
static __always_inline __u32 pc_quota_place(__u32 owner, __u32 roll, __u32 places)
{
	__u32 group = (__u64)roll * (places / PC_GROUP) >> 32, in; /* high bits are more random */

	if (owner <= PC_OWNER_NODE)
		in = (roll >> 8 & 1) << 1 | owner;
	else
		in = ((owner ^ group * 0x85ebca6bU) * 0x9e3779b1U) >> 30;
	return group * PC_GROUP + (in & (PC_GROUP - 1));
}

/* How strongly a live entry keeps its place, below 2^63: of the tried entries, the one with the
 * lowest value loses it. An entry with PC_STAYS never does.
 */
typedef __u64 pc_stay(const struct pc_seek *seek, const void *entry, const void *key);

/* Claims a place, which stays locked until pc_place_give(). Deletes the entry that had the place.
 * NULL: all tried entries stay, or another CPU was first. Table entries begin with the tick at
 * which they expire. The compared values stay in memory, about which the verifier knows nothing: so
 * all branches of a round reach the next round in one state.
 */
static __always_inline __u32 *pc_place_claim(void *table, void *places, __u32 n,
					     struct pc_seek *seek, pc_stay *stay_of)
{
	__u32 roll = seek->roll, at, lock, lock_then, tried = 0, *place;
	volatile struct pc_seek *in_memory = seek;
	const __u64 *entry;
	__u64 stay, lowest;

	in_memory->lowest = PC_STAYS;

	/* Linux 6.1 rejects a loop that falls through to its own beginning. Compilers emit one if
	 * they load a register there, so no register is free at that point.
	 */
#pragma clang loop unroll(disable)
	do {
		asm volatile("" ::: "r0", "r1", "r2", "r3", "r4", "r5");
		roll = pc_quota_roll(roll);
		at = pc_quota_place(seek->owner, roll, n);
		place = bpf_map_lookup_elem(places, &at);
		if (!place)
			return 0;
		lock = *(volatile __u32 *)place;
		stay = PC_STAYS;
		if (!(lock & 1)) {
			entry = bpf_map_lookup_elem(table, place + 1);
			stay = entry != 0;
			if (entry && *entry > seek->now)
				stay |= stay_of(seek, entry, place + 1) << 1;
		}
		in_memory->stay = stay;
		if (in_memory->stay < in_memory->lowest) {
			in_memory->lowest = in_memory->stay;
			in_memory->lowest_at = at;
			in_memory->lowest_lock = lock;
		}
		tried++;
	} while (in_memory->lowest > 1 && tried < PC_PLACES_TRIED);
	lowest = in_memory->lowest;
	seek->full = lowest > 1 ? seek->is_short : PC_QUOTA_NONE;
	if (lowest > 1 && lowest != PC_STAYS && seek->is_short == PC_QUOTA_ESTABLISHED)
		seek->full = PC_QUOTA_IDLE;
	if (lowest == PC_STAYS)
		return 0;
	at = in_memory->lowest_at;
	lock_then = in_memory->lowest_lock;
	place = bpf_map_lookup_elem(places, &at);
	if (!place || __sync_val_compare_and_swap(place, lock_then, lock_then + 1) != lock_then)
		return 0;
	if (lowest)
		bpf_map_delete_elem(table, place + 1);
	return place;
}

/* Sets the key of the place, or clears it, and unlocks the place for other CPUs. The swap is
 * ordered after the key on every machine.
 */
static __always_inline bool pc_place_give(__u32 *place, const __u32 *key, __u32 words, bool is_used)
{
	__u32 all = -(__u32)is_used;

	for (__u32 i = 0; i < words; i++)
		place[1 + i] = key[i] & all;
	__sync_lock_test_and_set(place, *place + 1);
	return is_used;
}

/* Stores an entry under the room's key, in a table without an entry of that key. */
#define PC_STORE(table, places, entries, room, key_type, entry, yields)                            \
	({                                                                                         \
		__u32 *place = pc_place_claim(&table, &places, entries, &(room)->seek, yields);    \
		place &&pc_place_give(                                                             \
		    place, (room)->key, sizeof(key_type) / sizeof(__u32),                          \
		    !bpf_map_update_elem(&table, (room)->key, entry, BPF_NOEXIST));                \
	})
