/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_new_way.h - which way of its set a connection that begins gets.
 * Gives pc_new_take(), pc_new_swap(), pc_new_mine(). A free way, that of a connection which is
 * over, or the one that was not used for the longest time.
 */
#pragma once
#include "ct_idle.h"
#include "ct_new.h"

#define PC_NEW_TRIES  8            /* a way may be lost to another CPU each time */
#define PC_NEW_SPARED 4            /* ways that were used after all, and are passed over */
#define PC_NEW_STALE  60           /* seconds after which a taken way is nobody's any more */
#define PC_NEW_FREE   (1ULL << 33) /* for how long a free way was not used */
#define PC_NEW_LONG   0x80000000U  /* ticks, longer than any other was not */

static __always_inline __u32 pc_new_word(const struct pc_new_head *head, __u32 way)
{
	return *(volatile __u32 *)&head->tag[way];
}

/* Whether the word was the one that is expected, and is the other one now. */
static __always_inline bool pc_new_swap(struct pc_new_head *head, __u32 way, __u32 from, __u32 to)
{
	__u64 at = way;

	barrier_var(at); /* or 6.1 is not shown that the word is one, and where words begin */
	at &= PC_NEW_WAYS - 1;
	return __sync_val_compare_and_swap(&head->tag[at], from, to) == from;
}

/* The word of a way that is taken now. */
static __always_inline __u32 pc_new_mine(__u64 now)
{
	return PC_NEW_TAKEN | (now & PC_NEW_TICK);
}

/* The way that was not used for the longest time; above it, for how many ticks, and one. */
static __always_inline __u64 pc_new_oldest(const struct pc_new_head *head, __u32 now)
{
	__u64 oldest = 0, age, less, is_older;

#pragma unroll
	for (int i = 0; i < PC_NEW_WAYS; i++) {
		age = (__u32)(now + 1 - head->used[i]);
		age |= ((__u64)head->tag[i] - 1) >> 63 << 33;
		age = age << 3 | i;
		less = oldest - age;
		is_older = (__s64)less >> 63;
		barrier_var(is_older); /* or compilers make a branch of it */
		oldest -= less & is_older;
	}
	return oldest;
}

/* A way whose connection was silent for too long, if there is one, else the given way. Without
 * branches, each of which the verifier would follow.
 */
static __always_inline __u64 pc_new_over(const struct pc_ct *ct, __u64 way, __u64 now)
{
	__u64 is_over;

#pragma unroll
	for (int i = 0; i < PC_NEW_WAYS; i++) {
		is_over = (__s64)(ct[i].expires - 1 - now) >> 63;
		barrier_var(is_over); /* or compilers make a branch of it */
		way ^= (way ^ i) & is_over;
	}
	return way;
}

/* The way that a new entry is to have: a free one, that of a connection which is over, or the
 * oldest. No entry is looked at where none can be over, as in a flood.
 */
static __always_inline __u32 pc_new_choose(const struct pc_new_head *head, const struct pc_ct *ct,
					   __u64 now, __u64 second)
{
	__u64 way = pc_new_oldest(head, now), age = way >> 3;

	if (age < PC_NEW_FREE && age > PC_ICMP_OTHER * second)
		way = pc_new_over(ct, way, now);
	barrier_var(way); /* or 6.1 is not shown its bounds */
	return way & (PC_NEW_WAYS - 1);
}

/* Somebody writes the way's entry. Nobody can stop half way; who was held up for so long that the
 * way is no longer his finds another word than his own, but has written.
 */
static __always_inline bool pc_new_is_taken(__u32 word, __u64 now, __u64 second)
{
	return (word & (PC_NEW_THERE | PC_NEW_TAKEN)) == PC_NEW_TAKEN &&
	       ((now - word) & PC_NEW_TICK) <= PC_NEW_STALE * second;
}

/* When an entry was used last: its packets write to it, and not to the head. */
static __always_inline __u32 pc_new_used(const struct pc_ct *ct, const struct pc_ct6_key *key,
					 __u64 second)
{
	return ct->expires - second * pc_idle_seconds(key->proto, key->sub, ct->state);
}

/* Takes a way by its word, and gives it; PC_NEW_WAYS: others were always faster. */
static __always_inline __u32 pc_new_take(struct pc_new_set *set, __u64 now, __u64 second)
{
	__u32 way, word, used;

#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_NEW_TRIES; i++) {
		barrier_var(
		    set); /* or the places of all words are worked out before, and spilled */
		way = pc_new_choose(&set->head, set->ct, now, second);
		word = pc_new_word(&set->head, way);
		if (pc_new_is_taken(word, now, second)) {
			set->head.used[way] = now + 1; /* no other is younger */
			continue;
		}
		if (i < PC_NEW_SPARED && word && set->ct[way].expires > now) {
			used = pc_new_used(&set->ct[way], &set->key[way], second);
			if ((__s32)(used - set->head.used[way]) > 0) {
				set->head.used[way] = used;
				continue;
			}
		}
		if (pc_new_swap(&set->head, way, word, pc_new_mine(now))) {
			set->head.used[way] = now;
			return way;
		}
	}
	return PC_NEW_WAYS;
}
