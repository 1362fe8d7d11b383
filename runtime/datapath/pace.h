/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* pace.h - so many a second, by one word and without a lock.
 * Gives pc_is_within().
 */
#pragma once
#include "addr.h"

/* Whether one more may come now, where one may come `every` nanoseconds, and up to `slack` before
 * it is due: `due` is when the next one is, at an even pace. Two CPUs that meet here try again;
 * after a few times it is one too many.
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
