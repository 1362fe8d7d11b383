/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* source_range.h - loadBalancerSourceRanges: the clients of a load balancer's addresses.
 * Gives pc_is_in_range(). Written by the loader (runtime/services/source_ranges.py),
 * double-buffered as all tables of endpoints are.
 */
#pragma once
#include "service_map.h"

#define PC_RANGES 16384 /* of both buffers */

/* The list is matched in full: each list has its own ranges. */
struct pc_range_key {
	__u32 length; /* prefix length: bits of the following fields */
	__be32 list;  /* from struct pc_frontend, with the buffer in the highest bit */
	struct pc_addr6 addr;
};
_Static_assert(sizeof(struct pc_range_key) == 24, "a map key has no hidden padding");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, PC_RANGES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pc_range_key);
	__type(value, __u32); /* 1 */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_ranges SEC(".maps");

/* Whether the sender is in a range of the list. A family without ranges matches no sender. A
 * separate function, for its own stack frame.
 */
__noinline int pc_is_in_range(const struct pc_addr6 *sender, __u32 list, __u32 state)
{
	struct pc_range_key key;

	if (!sender)
		return false;
	key = (struct pc_range_key){
	    .length = 8 * (sizeof(key) - sizeof(key.length)),
	    .list = bpf_htonl(list | (state & PC_STATE_BUFFER ? 0x80000000 : 0)),
	    .addr = *sender,
	};
	return !!bpf_map_lookup_elem(&pc_ranges, &key);
}
