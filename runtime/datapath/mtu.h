/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* mtu.h - whether a packet fits into a device's MTU. Gives pc_fits(). */
#pragma once
#include "flow.h"
#include <linux/if_ether.h>

/* Frames of this size fit into every device that the fast path uses. IPv6 needs an MTU of 1280 (RFC
 * 8200), and the kernel switches it off below. A host takes 576 bytes of IPv4 (RFC 791); the load
 * excludes uplinks with a smaller MTU (runtime/devices/route_mtu.py).
 */
#define PC_FITS_IPV4 (576 + ETH_HLEN)
#define PC_FITS_IPV6 (1280 + ETH_HLEN)

/* Merged segments fit if each of them does. Small packets are spared the helper. So a small packet
 * is also redirected to a device that is gone, where the kernel drops it. The result is in memory,
 * about which the verifier knows nothing: so it continues once for both kinds of packets.
 */
static __always_inline bool pc_fits(struct __sk_buff *skb, struct pc_flow *flow, __u32 device)
{
	__u32 small = flow->tuple.family == PC_IPV4 ? PC_FITS_IPV4 : PC_FITS_IPV6, mtu = 0;
	volatile __u8 *fits = &flow->fits;

	*fits = skb->len <= small ||
		bpf_check_mtu(skb, device, &mtu, 0, BPF_MTU_CHK_SEGS) == BPF_MTU_CHK_RET_SUCCESS;
	return *fits;
}
