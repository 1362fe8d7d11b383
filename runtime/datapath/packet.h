/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* packet.h - bytes of a packet.
 * Gives pc_read(): from where they lie in memory, as headers do, or else by the kernel's helper,
 * which costs as much as all the rest of what is done for a header.
 */
#pragma once
#include "addr.h"
#include <linux/in.h>

#define PC_READ_AT                                                                                 \
	1024 /* the verifier has to know a bound; what lies behind it is the helper's              \
	      */

/* False where the packet ends before. `size` is a constant. (x86 and arm64 read words from any
 * address; without that said the compiler would read bytes.)
 */
static __always_inline bool pc_read(struct __sk_buff *skb, __u32 at, void *to, __u32 size)
{
	const void *from = (const void *)(long)skb->data;
	const void *end = (const void *)(long)skb->data_end;

	/* Without these a sum is computed twice, and what is checked is not what is read. */
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

/* A later fragment that starts at this byte would lay its own over the flags of TCP (RFC 1858), or
 * over the chunk header of SCTP, which the decision was about.
 */
static __always_inline bool pc_is_laid_over(__u8 proto, __u16 offset)
{
	return offset == 8 && (proto == IPPROTO_TCP || proto == IPPROTO_SCTP);
}
