/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_front.h - a connection to a Service has two entries, as its directions have different tuples.
 * Gives pc_tuple_front(), pc_ct_insert_both(), pc_ct_put_front(), pc_ct_drop_front().
 *
 * The entry proper is that of client and backend, under which policies decide and replies come. The
 * front is a copy of it under client and Service: both have the flow's id, and each says all that
 * its packets need. Why: docs/decisions/0023-services.md
 */
#pragma once
#include "ct_decided.h"

/* Puts into the tuple what the client had there. */
static __always_inline void pc_tuple_front(struct pc_tuple *t, const struct pc_nat *nat)
{
	t->daddr = nat->daddr;
	t->dport = nat->dport;
	t->sport = nat->sport;
}

/* The front of an entry proper, after that, so that there is never a front alone. */
static __always_inline bool pc_ct_add_front(const struct pc_flow *flow, struct pc_ct *ct)
{
	struct pc_tuple front = flow->t;

	pc_tuple_front(&front, &flow->nat);
	ct->state = (ct->state | PC_CT_FRONT) & ~(PC_CT_TRIED | PC_CT_CAME_SRC | PC_CT_OPENING);
	ct->src.nat = (struct pc_ct_nat){.port = flow->t.sport, .row = flow->nat.row};
	if (pc_ct_put(&front, ct, flow->is_front_kept))
		return true;
	pc_ct_delete(&flow->t);
	return false;
}

/* A new connection, with its front if it goes to a Service. False when there is no room. */
static __always_inline bool pc_ct_insert_both(const struct pc_flow *flow, __u32 egress_rule,
					      __u32 ingress_rule)
{
	struct pc_ct ct = pc_ct_of(flow, egress_rule, ingress_rule, pc_ct_opening(flow));

	return pc_ct_put(&flow->t, &ct, flow->is_kept) &&
	       (!flow->nat.row || pc_ct_add_front(flow, &ct));
}

/* Of a connection that was decided again. What the one before it knew of the way to the endpoint
 * goes on, as in pc_ct_renew(). False when there is no room.
 */
static __always_inline bool pc_ct_put_front(const struct pc_flow *flow)
{
	struct pc_tuple front = flow->t;
	struct pc_ct *back, *old, ct;

	if (!flow->nat.row)
		return true;
	back = pc_ct_get(&flow->t, true).ct;
	if (!back)
		return false;
	pc_tuple_front(&front, &flow->nat);
	old = pc_ct_get(&front, true).ct;
	ct = *back;
	if (!old || old->flow_id != ct.flow_id || !(old->state & PC_CT_CAME_DST))
		ct.state &= ~PC_CT_CAME_DST;
	else
		__builtin_memcpy(ct.dst.gateway, old->dst.gateway, sizeof(ct.dst.gateway));
	if (old && old->flow_id == ct.flow_id && ct.out && !ct.dst.ifindex)
		ct.dst = old->dst;
	else
		ct.out = 0;
	return pc_ct_add_front(flow, &ct);
}

/* No policy allows it any more. */
static __always_inline void pc_ct_drop_front(const struct pc_flow *flow)
{
	struct pc_tuple front = flow->t;

	if (!flow->nat.row)
		return;
	pc_tuple_front(&front, &flow->nat);
	pc_ct_delete(&front);
}
