/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* packet.h - bytes of a packet.
 * Gives pc_read(). It reads headers from linear memory. Other bytes need the kernel's helper, which
 * costs as much as all other work on a header.
 */
#pragma once
#include "addr.h"
#include <linux/in.h>

#define PC_READ_AT                                                                                 \
	1024 /* the verifier needs to know a bound; a helper reads the bytes above it              \
	      */

/* False if the packet ends before. `size` is a constant. (x86 and arm64 read unaligned words;
 * without the assumed alignment the compiler would read single bytes.)
 */
static __always_inline bool pc_read(struct __sk_buff *skb, __u32 at, void *to, __u32 size)
{
	const void *from = (const void *)(long)skb->data;
	const void *end = (const void *)(long)skb->data_end;

	/* Without these a sum is computed twice, and the check sees another value than the read. */
	if (!__builtin_constant_p(at))
		barrier_var(at);
	if (at > PC_READ_AT)
		return !bpf_skb_load_bytes(skb, at, to, size);
	from += at;
	barrier_var(from);
	if (from + size <= end) {
		__builtin_memcpy(to, __builtin_assume_aligned(from, 4), size);
		return true;
	}
	return !bpf_skb_load_bytes(skb, at, to, size);
}

/* Whether a later fragment at this byte offset would overwrite the flags of TCP (RFC 1858), or the
 * chunk header of SCTP, which the decision used.
 */
static __always_inline bool pc_is_laid_over(__u8 proto, __u16 offset)
{
	return offset == 8 && (proto == IPPROTO_TCP || proto == IPPROTO_SCTP);
}
