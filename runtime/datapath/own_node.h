/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* own_node.h - packets of the node to its own pods pass, unless an own-node rule denies them.
 * Gives pc_ask_own_node(). Policies decide only where they have such a rule (semantics A22).
 * Why: docs/decisions/0048-a-deny-of-the-pods-own-node.md
 */
#pragma once
#include "endpoints.h"
#include "generation.h"
#include "host_end.h"

/* Policies know the node as this end, under any of its addresses. It has no policy here. */
static __always_inline void pc_own_node(struct pc_endpoint *src)
{
	__u32 device = PC_HOST_DEVICE;
	const struct pc_endpoint *own = bpf_map_lookup_elem(&pc_if, &device);

	if (own)
		*src = *own;
	src->ifindex = 0;
}

/* Calls the policy for a flow from the node to a pod, whose ends are filled in. Returns only if
 * there is no policy.
 */
static __always_inline enum drop_reason pc_ask_own_node(struct __sk_buff *skb, struct pc_flow *flow,
							__u32 state)
{
	pc_own_node(&flow->src);
	flow->opener = PC_OPENER_OWN_NODE;
	return pc_ask_policy(skb, state);
}
