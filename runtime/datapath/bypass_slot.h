/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bypass_slot.h - the way from a pod's hook to the program that adds a connection to the bypass.
 * Gives pc_bypass_offer().
 */
#pragma once
#include "flow.h"

/* 0 -> pc_bypass_add (bypass.bpf.c), if the load asks for a bypass; otherwise empty. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_bypass_slot SEC(".maps");

/* Once a second of a connection between two pods, on a packet that passes. Does not return if the
 * slot is filled.
 */
static __always_inline void pc_bypass_offer(struct __sk_buff *skb, const struct pc_flow *flow)
{
	if (flow->action.is_kept)
		bpf_tail_call(skb, &pc_bypass_slot, 0);
}
