/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* tunnel_count.h - counts packets between nodes, and those of them that pass the VXLAN device.
 * Gives pc_tunnel_counted(). Only `node status` reads the counters.
 */
#pragma once
#include "flow.h"

enum pc_tunnel_counter {
	PC_TUNNEL_SENT = 0,
	PC_TUNNEL_SENT_BY_DEVICE,
	PC_TUNNEL_RECEIVED,
	PC_TUNNEL_RECEIVED_BY_DEVICE,
	PC_TUNNEL_COUNTERS
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PC_TUNNEL_COUNTERS);
	__type(key, __u32); /* enum pc_tunnel_counter */
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_tunnel_count SEC(".maps");

static __always_inline void pc_tunnel_counted(__u32 what)
{
	__u64 *count = bpf_map_lookup_elem(&pc_tunnel_count, &what);

	if (count)
		*count += 1;
}
