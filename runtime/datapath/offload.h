/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* offload.h - the checksum that the sender has left to the device, or to the kernel on the way.
 * Gives pc_partial_of(). It is written behind the hook, where the sender says (a packet socket's
 * PACKET_VNET_HDR): over a port or an address that was decided on, if nobody looks.
 */
#pragma once
#include "parse_l4.h"
#include <bpf/bpf_core_read.h>

#define PC_CHECKSUM_PARTIAL 3 /* CHECKSUM_PARTIAL of <linux/skbuff.h>, which is not for BPF */

/* What is read of the kernel's own sk_buff, wherever this kernel has it. */
struct sk_buff___pc {
	unsigned char *head, *data;
	__u16 csum_start, csum_offset;
	__u8 ip_summed : 2;
} __attribute__((preserve_access_index));

/* The place is the header's own, or in the data, as in a tunnel that the pod makes: there is
 * nothing that a policy asks about. Of ICMP errors and discovery the data is looked at too. Whoever
 * cuts a packet into fragments completes it first.
 */
static __always_inline enum pc_partial pc_partial_of(const struct __sk_buff *ctx,
						     const struct pc_flow *flow)
{
	const struct sk_buff___pc *skb = (const void *)ctx;
	__u32 frame, at;

	if (BPF_CORE_READ_BITFIELD_PROBED(skb, ip_summed) != PC_CHECKSUM_PARTIAL)
		return PC_PARTIAL_NOT;
	if (!flow->t.family || flow->fragment)
		return PC_PARTIAL_WRONG;
	frame = BPF_CORE_READ(skb, data) - BPF_CORE_READ(skb, head);
	at = BPF_CORE_READ(skb, csum_start) + BPF_CORE_READ(skb, csum_offset);
	if (at < frame + flow->l4)
		return PC_PARTIAL_WRONG;
	at -= frame + flow->l4;
	if (pc_l4_header(&flow->t) && at == pc_l4_checksum_at(&flow->t))
		return PC_PARTIAL_OWN;
	return !pc_is_icmp(&flow->t) && at >= pc_l4_header(&flow->t) ? PC_PARTIAL_DATA
								     : PC_PARTIAL_WRONG;
}
