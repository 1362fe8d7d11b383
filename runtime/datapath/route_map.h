/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* route_map.h - the device to which the host routes the node's own packets to Services.
 * Gives pc_route_in(). Written by the loader (runtime/services/route.py); only hooks read.
 */
#pragma once
#include "drops.h"

/* The device's own MAC: the kernel accepts frames to it. */
#define PC_ROUTE_MAC                                                                               \
	{                                                                                          \
		0x02, 0x70, 0x63, 0, 0, 3                                                          \
	}

/* 0: the last load has no such routes. */
struct pc_route_to {
	__u32 device;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_route_to);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_route_to SEC(".maps");

/* The hook's return value for a packet that must come in by the device to which the route to its
 * source leads: strict reverse path filters accept it there.
 */
__noinline int pc_route_in(struct __sk_buff *skb)
{
	const __u8 mac[PC_MAC_LEN] = PC_ROUTE_MAC;
	const struct pc_route_to *to;
	__u32 zero = 0;

	to = bpf_map_lookup_elem(&pc_route_to, &zero);
	if (!to || !to->device || bpf_skb_store_bytes(skb, 0, mac, sizeof(mac), 0))
		return pc_tc_action(PC_DROP_NO_ROUTE);
	return bpf_redirect(to->device, BPF_F_INGRESS);
}
