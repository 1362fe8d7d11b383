/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* hop_limit.h - takes a hop from an IPv6 packet. Gives pc_take_hop6(). */
#pragma once
#include "flow.h"
#include <linux/if_ether.h>
#include <linux/ipv6.h>
#include <stddef.h>

#define PC_IP6_HOP_AT (ETH_HLEN + offsetof(struct ipv6hdr, hop_limit))

/* IPv6 has no header checksum that changes with the hop limit. So the sum over the whole packet
 * changes, if the device has computed one.
 */
static __always_inline bool pc_take_hop6(struct __sk_buff *skb, const struct pc_flow *flow)
{
	__u8 left = flow->packet.hop_limit - 1;

	return !bpf_skb_store_bytes(skb, PC_IP6_HOP_AT, &left, sizeof(left),
				    flow->packet.is_summed ? BPF_F_RECOMPUTE_CSUM : 0);
}
