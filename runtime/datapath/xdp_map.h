/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* xdp_map.h - the uplinks at which XDP forwards packets to other nodes, before the kernel allocates
 * an skb, and their counters. Gives pc_xdp_at(), pc_xdp_counted(). Written by the loader
 * (runtime/attach/xdp.py); only the XDP program reads.
 */
#pragma once
#include "external_map.h"

/* An uplink. The node's addresses are the sources
 * that it uses there; zero: none of that family.
 */
struct pc_xdp_uplink {
	struct pc_addr6 own4, own6;
	__u8 mac[PC_MAC_LEN];
	__u8 is_generic; /* a frame goes between two uplinks only if both agree */
	__u8 place;      /* index in pc_xdp_count */
};
_Static_assert(sizeof(struct pc_xdp_uplink) == 40, "without padding");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries,
	       2 * PC_UPLINKS); /* of the last load, and until the switch of the load before */
	__type(key, __u32);     /* ifindex */
	__type(value, struct pc_xdp_uplink);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_xdp_uplinks SEC(".maps");

struct pc_xdp_counts {
	__u64 requests, answers; /* of clients, to other nodes; replies back to clients */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * PC_UPLINKS);
	__type(key, __u32);
	__type(value, struct pc_xdp_counts);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_xdp_count SEC(".maps");

static __always_inline const struct pc_xdp_uplink *pc_xdp_at(__u32 device)
{
	return bpf_map_lookup_elem(&pc_xdp_uplinks, &device);
}

static __always_inline const struct pc_addr6 *pc_xdp_own(const struct pc_xdp_uplink *uplink,
							 __u8 family)
{
	return family == PC_IPV4 ? &uplink->own4 : &uplink->own6;
}

static __always_inline void pc_xdp_counted(const struct pc_xdp_uplink *uplink, bool is_answer)
{
	__u32 place = uplink->place;
	struct pc_xdp_counts *counts = bpf_map_lookup_elem(&pc_xdp_count, &place);

	if (!counts)
		return;
	if (is_answer)
		counts->answers += 1;
	else
		counts->requests += 1;
}
