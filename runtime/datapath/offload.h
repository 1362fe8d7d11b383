/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* offload.h - the checksum that the sender left to the device, or to the kernel on the path.
 * Gives pc_csum_partial_of(), pc_has_inner(). The kernel writes it after the hook, at an offset
 * that the sender chooses (PACKET_VNET_HDR of a packet socket). Unchecked, it could overwrite a
 * decided port or address.
 */
#pragma once
#include "parse_l4.h"
#include <bpf/bpf_core_read.h>

/* CHECKSUM_* of <linux/skbuff.h>, which cannot be included in BPF */
#define PC_CHECKSUM_COMPLETE 2
#define PC_CHECKSUM_PARTIAL  3

/* The fields of the kernel's sk_buff that are read, at this kernel's offsets (CO-RE). */
struct sk_buff___pc {
	unsigned char *head, *data;
	__u16 csum_start, csum_offset;
	__u8 ip_summed : 2;
	__u8 encapsulation : 1;
} __attribute__((preserve_access_index));

/* A kernel with these links also has the function (6.6, and 6.2). */
struct tcx_link___pc {
	int any;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __attribute__((weak));

/* What is known of the checksum; if part is left to do, its offset from the frame's start. Plain
 * loads, where the kernel allows them: a helper costs as much as the connection lookup.
 */
struct pc_left {
	__u32 summed; /* CHECKSUM_* */
	__s32 at;     /* may be before it: the sender gives it */
};

static __always_inline struct pc_left pc_left_of(const struct __sk_buff *ctx)
{
	const struct sk_buff___pc *skb = (const void *)ctx;
	struct pc_left left = {};

	if (bpf_core_type_exists(struct tcx_link___pc)) {
		skb = bpf_cast_to_kern_ctx((void *)ctx);
		left.summed = BPF_CORE_READ_BITFIELD(skb, ip_summed);
		if (left.summed == PC_CHECKSUM_PARTIAL)
			left.at =
			    skb->csum_start + skb->csum_offset - (__u32)(skb->data - skb->head);
		return left;
	}
	left.summed = BPF_CORE_READ_BITFIELD_PROBED(skb, ip_summed);
	if (left.summed == PC_CHECKSUM_PARTIAL)
		left.at = BPF_CORE_READ(skb, csum_start) + BPF_CORE_READ(skb, csum_offset) -
			  (__u32)(BPF_CORE_READ(skb, data) - BPF_CORE_READ(skb, head));
	return left;
}

/* Whether offsets of an inner packet are set, which no helper clears. A packet from a wire has
 * none, unless the kernel has merged it; one of a virtual device may have those of its sender.
 */
static __always_inline bool pc_has_inner(const struct __sk_buff *ctx)
{
	const struct sk_buff___pc *skb = (const void *)ctx;

	if (!bpf_core_type_exists(struct tcx_link___pc))
		return BPF_CORE_READ_BITFIELD_PROBED(skb, encapsulation);
	skb = bpf_cast_to_kern_ctx((void *)ctx);
	return BPF_CORE_READ_BITFIELD(skb, encapsulation);
}

/* The offset is valid if it is the header's own, or in the data, as in a tunnel that the pod makes:
 * no policy reads data. For ICMP errors and neighbour discovery the data is checked too. The kernel
 * completes the checksum before it fragments a packet.
 */
static __always_inline enum pc_csum_partial pc_csum_partial_of(const struct __sk_buff *ctx,
							       struct pc_flow *flow)
{
	struct pc_left left = pc_left_of(ctx);
	__u32 at = left.at - flow->packet.l4;

	flow->packet.is_summed = left.summed == PC_CHECKSUM_COMPLETE;
	if (left.summed != PC_CHECKSUM_PARTIAL)
		return PC_PARTIAL_NONE;
	if (!flow->tuple.family || flow->packet.fragment || left.at < (__s32)flow->packet.l4)
		return PC_PARTIAL_INVALID;
	if (pc_l4_header(&flow->tuple) && at == pc_l4_checksum_at(&flow->tuple))
		return PC_PARTIAL_L4;
	return !pc_is_icmp(&flow->tuple) && at >= pc_l4_header(&flow->tuple) ? PC_PARTIAL_DATA
									     : PC_PARTIAL_INVALID;
}
