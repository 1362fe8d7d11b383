/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* from_reassembly.h - fragments that come back from the namespace in order.
 * Nothing is decided here: each returns to the device that it came from, whose hook decides.
 */
#pragma once
#include "reassembly.h"
#include "generation.h"
#include "parse.h"

static __always_inline enum drop_reason pc_from_reassembly_frame(struct __sk_buff *skb,
								 struct pc_flow *flow)
{
	enum drop_reason reason = pc_parse(skb, flow);

	if (reason)
		return reason;
	pc_generation(flow);
	return flow->tuple.family ? PC_PASS : PC_DROP_ETHERTYPE;
}
