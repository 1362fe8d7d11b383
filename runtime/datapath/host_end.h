/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* host_end.h - a node under host policy, as an end whose policy decides.
 * Gives pc_host_receives() and pc_host_sends(). Only a hook can say that a packet is the node's: an
 * address alone may be forged, or come from the host's own translation.
 */
#pragma once
#include "endpoints.h"
#include "failsafe.h"

/* The node's ifindex in place of a pod's device: loopback, which has no hook. */
#define PC_HOST_DEVICE 1

static __always_inline bool pc_has_host_policy(const struct pc_endpoint *ep)
{
	return ep->flags & PC_ENDPOINT_HOST;
}

/* If the node is the flow's destination, its policy decides; not at a failsafe port. A separate
 * function: inlined, the verifier would track its branches through the rest of the hook.
 */
__noinline int pc_host_receives(struct pc_flow *flow)
{
	if (!flow || !pc_has_host_policy(&flow->dst))
		return false;
	if (!pc_is_failsafe(flow, PC_FAILSAFE_IN, flow->tuple.dport))
		flow->dst.ifindex = PC_HOST_DEVICE;
	return true;
}

/* The same for the flow's source. */
__noinline int pc_host_sends(struct pc_flow *flow)
{
	if (!flow || !pc_has_host_policy(&flow->src))
		return false;
	if (!pc_is_failsafe(flow, PC_FAILSAFE_OUT, flow->tuple.dport))
		flow->src.ifindex = PC_HOST_DEVICE;
	return true;
}
