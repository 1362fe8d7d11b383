/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* pace.h - a rate limit in one word, without a lock.
 * Gives pc_is_within().
 */
#pragma once
#include "addr.h"

/* Whether one more may come now. One may come every `every` nanoseconds, and up to `slack` before
 * it is due; `due` is when the next one is due at an even pace. Two CPUs that race try again; after
 * a few attempts the result is false.
 */
static __always_inline bool pc_is_within(__u64 *due, __u64 now, __u64 every, __u64 slack)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		__u64 seen = *(volatile __u64 *)due;
		__u64 from = seen > now ? seen : now;

		if (from - now > slack)
			return false;
		if (__sync_val_compare_and_swap(due, seen, from + every) == seen)
			return true;
	}
	return false;
}
