/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* no_endpoint.h - a device with hooks and no endpoint: its pod is gone, or no load knows it yet.
 * Gives pc_has_no_endpoint(), for packets that to_pod.h lets pass.
 */
#pragma once
#include "neighbour.h"

/* A forwarded packet is for this device's endpoint, or to_pod.h dropped it. Other packets pass to a
 * known pod whatever its addresses: the node's own packets, ARP, and neighbour discovery.
 */
static __always_inline bool pc_has_no_endpoint(const struct __sk_buff *skb,
					       const struct pc_flow *flow)
{
	__u32 device = flow->device;

	if (pc_came_in(skb, flow) && flow->tuple.family && !pc_is_icmp6(flow))
		return false;
	return !bpf_map_lookup_elem(&pc_if, &device);
}
