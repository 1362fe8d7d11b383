/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* first_slot.h - the way from the policy program to the program that forwards a connection's first
 * packet. Gives pc_first_offer().
 */
#pragma once
#include "flow.h"

/* 0 -> pc_first (hooks.bpf.c), if the load allows it; otherwise empty. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_first_slot SEC(".maps");

/* Whether the fast path serves the pods of this node among the ends, and the packet is at the hook
 * of its sender, or of its receiver if its sender is of another node.
 */
static __always_inline bool pc_first_is_served(const struct pc_flow *flow)
{
	const struct pc_endpoint *here = flow->src.ifindex ? &flow->src : &flow->dst;

	return here->ifindex == flow->device && here->flags & PC_ENDPOINT_PEER &&
	       (!flow->dst.ifindex || flow->dst.flags & PC_ENDPOINT_PEER);
}

/* For an allowed packet whose entry is stored. Does not return if the packet opens a connection
 * that the fast path serves, and the slot is filled.
 */
static __always_inline void pc_first_offer(struct __sk_buff *skb, const struct pc_flow *flow)
{
	if (flow->opener == PC_OPENER_KNOWN && flow->action.entry_op == PC_ENTRY_INSERT &&
	    !flow->is_reply && pc_first_is_served(flow))
		bpf_tail_call(skb, &pc_first_slot, 0);
}
