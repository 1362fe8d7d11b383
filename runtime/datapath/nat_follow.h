/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* nat_follow.h - later fragments of packets to Services, and of the replies.
 * Gives pc_nat_follow().
 */
#pragma once
#include "fragments.h"
#include "hairpin_addr.h"
#include "nat.h"
#include "external_map.h"
#include "service_map.h"

/* Later fragments have no ports. They follow the first one, and are translated like it. Both hooks
 * of a pod find the same record; `reply` says which end this hook translates.
 */
static __always_inline int pc_nat_follow(struct __sk_buff *skb, struct pc_flow *flow, bool reply)
{
	const struct pc_frag *first = pc_frag_first(flow);
	const struct pc_backend *backend;
	bool done;

	if (!first)
		return PC_STEP_REASSEMBLE;
	if (!reply && first->backend && pc_is_hairpin(&flow->tuple.daddr, flow->tuple.family))
		return PC_STEP_HAIRPIN;
	if (!first->backend || !(first->backend & PC_FRAG_REPLY) == reply)
		return PC_PASS;
	backend = pc_backend_of(first->backend & ~PC_FRAG_REPLY);
	if (!backend)
		return PC_DROP_BACKEND_GONE;
	if (!reply && pc_addr_eq(&backend->addr, &flow->tuple.saddr))
		return PC_STEP_HAIRPIN;
	if (reply)
		done = pc_nat_addr(
		    skb, flow, PC_NAT_SRC, &flow->tuple.saddr,
		    pc_frontend_addr(&backend->frontend, flow->tuple.family, first->node));
	else
		done = pc_nat_addr(skb, flow, PC_NAT_DST, &flow->tuple.daddr, &backend->addr);
	return done ? PC_PASS : PC_DROP_MALFORMED;
}
