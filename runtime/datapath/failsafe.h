/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* failsafe.h - ports of the node that no policy closes, so that the node stays reachable.
 * Gives pc_is_failsafe(). Written by the loader (runtime/failsafes.py); only hooks read.
 */
#pragma once
#include "flow.h"

#define PC_FAILSAFES_MOST 1024 /* 256 per direction, in two generations */

enum pc_failsafe_side { PC_FAILSAFE_IN = 0, PC_FAILSAFE_OUT = 1 };

/* A port that other hosts reach at the node, or the node at other hosts, while the generation is
 * active. A load writes the ports of its generation before it switches to it.
 */
struct pc_failsafe {
	__u32 epoch;
	__be16 port;
	__u8 proto;
	__u8 side; /* enum pc_failsafe_side */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_FAILSAFES_MOST);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pc_failsafe);
	__type(value, __u32); /* 1 */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_failsafes SEC(".maps");

static __always_inline bool pc_is_failsafe(const struct pc_flow *flow, enum pc_failsafe_side side,
					   __be16 port)
{
	struct pc_failsafe key = {
	    .epoch = flow->epoch, .port = port, .proto = flow->tuple.proto, .side = side};

	return bpf_map_lookup_elem(&pc_failsafes, &key);
}
