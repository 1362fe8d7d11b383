/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* host_end.h - the node as an end whose policy is asked, where it is guarded.
 * Gives pc_host_receives() and pc_host_sends(). Only what a hook says is the node's is: its address
 * alone may be forged, or that of what the host's stack has translated.
 */
#pragma once
#include "endpoints.h"
#include "failsafe.h"

/* What the node has in the place of a pod's device: loopback, at which no hook is. */
#define PC_HOST_DEVICE 1

static __always_inline bool pc_is_guarded(const struct pc_endpoint *ep)
{
	return ep->flags & PC_ENDPOINT_HOST;
}

/* The flow's destination, if it is the node, is asked; not about a failsafe port. A function of its
 * own: inlined, the verifier would tell its ways apart through all that follows.
 */
__noinline int pc_host_receives(struct pc_flow *flow)
{
	if (!flow || !pc_is_guarded(&flow->dst))
		return false;
	if (!pc_is_failsafe(flow, PC_FAILSAFE_IN, flow->t.dport))
		flow->dst.ifindex = PC_HOST_DEVICE;
	return true;
}

/* The same of its source. */
__noinline int pc_host_sends(struct pc_flow *flow)
{
	if (!flow || !pc_is_guarded(&flow->src))
		return false;
	if (!pc_is_failsafe(flow, PC_FAILSAFE_OUT, flow->t.dport))
		flow->src.ifindex = PC_HOST_DEVICE;
	return true;
}
