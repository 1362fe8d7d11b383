/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* frag_sender.h - records first fragments for a hook that does not look up their ends.
 * Gives pc_frag_by(), pc_frag_passed(). A datagram is charged to its sender (quota.h).
 */
#pragma once
#include "endpoints.h"
#include "fragments.h"

/* As pc_frag_put(). A separate function, for its own stack frame. */
__noinline int pc_frag_by(const struct pc_flow *flow, __u32 reasm)
{
	struct pc_endpoint sender = {};

	if (!flow)
		return false;
	pc_endpoint_at(flow->tuple.family, flow->is_reply ? &flow->tuple.daddr : &flow->tuple.saddr,
		       &sender);
	return pc_frag_put(flow, reasm, sender.ifindex);
}

/* Called for every packet that passes; does nothing for an unfragmented one. */
static __always_inline void pc_frag_passed(const struct pc_flow *flow)
{
	if (flow->packet.fragment == PC_FRAG_FIRST)
		pc_frag_by(flow, PC_REASM_NONE);
}
