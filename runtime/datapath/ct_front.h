/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_front.h - a connection to a Service has two entries, as its directions have different tuples.
 * Gives pc_tuple_front(), pc_ct_insert_both(), pc_ct_put_front(), pc_ct_drop_front().
 *
 * The post-NAT entry has the tuple of client and endpoint: policies decide it, and replies find it.
 * The pre-NAT entry is a copy under client and Service. Both have the flow's id, and each holds all
 * that its packets need. Why: docs/decisions/0023-services.md
 */
#pragma once
#include "ct_decided.h"

/* Restores in the tuple what the client sent. */
static __always_inline void pc_tuple_front(struct pc_tuple *t, const struct pc_nat *nat)
{
	t->daddr = nat->daddr;
	t->dport = nat->dport;
	t->sport = nat->sport;
}

/* The tuple that the client sent, in this CPU's room. Never NULL; the check is for the verifier. */
static __always_inline struct pc_tuple *pc_front_of(const struct pc_flow *flow)
{
	struct pc_room *room = pc_room_here();

	if (!room)
		return 0;
	room->front = flow->t;
	pc_tuple_front(&room->front, &flow->nat);
	return &room->front;
}

/* Adds the pre-NAT entry after the post-NAT entry, so that a pre-NAT entry never exists alone. */
static __always_inline bool pc_ct_add_front(const struct pc_flow *flow, struct pc_ct *ct)
{
	struct pc_tuple *front = pc_front_of(flow);

	ct->state = (ct->state | PC_CT_FRONT) & ~(PC_CT_TRIED | PC_CT_CAME_SRC | PC_CT_OPENING);
	ct->src.nat = (struct pc_ct_nat){.port = flow->t.sport, .row = flow->nat.row};
	if (front && pc_ct_put(flow, front, ct, flow->is_front_kept))
		return true;
	pc_ct_delete(&flow->t);
	return false;
}

/* A new connection, with a pre-NAT entry if it goes to a Service. False when there is no room. */
static __always_inline bool pc_ct_insert_both(const struct pc_flow *flow, __u32 egress_rule,
					      __u32 ingress_rule)
{
	struct pc_ct *ct = pc_ct_of(flow, egress_rule, ingress_rule, pc_ct_opening(flow));

	return ct && pc_ct_put(flow, &flow->t, ct, flow->is_kept) &&
	       (!flow->nat.row || pc_ct_add_front(flow, ct));
}

/* The pre-NAT entry of a connection that was decided again. What the previous entry knew of the
 * path to the endpoint stays, as in pc_ct_renew(). False when there is no room.
 */
static __always_inline bool pc_ct_put_front(const struct pc_flow *flow)
{
	struct pc_room *room = pc_room_here();
	struct pc_ct *back, *old, *ct;
	struct pc_tuple *front;

	if (!flow->nat.row)
		return true;
	back = pc_ct_get(&flow->t, true).ct;
	front = pc_front_of(flow);
	if (!back || !room || !front)
		return false;
	old = pc_ct_get(front, true).ct;
	ct = pc_room_ct(room);
	*ct = *back;
	if (!old || old->flow_id != ct->flow_id || !(old->state & PC_CT_CAME_DST))
		ct->state &= ~PC_CT_CAME_DST;
	else
		__builtin_memcpy(ct->dst.gateway, old->dst.gateway, sizeof(ct->dst.gateway));
	if (old && old->flow_id == ct->flow_id && ct->out && !ct->dst.ifindex)
		ct->dst = old->dst;
	else
		ct->out = 0;
	return pc_ct_add_front(flow, ct);
}

/* Deletes the pre-NAT entry: no policy allows the connection any more. */
static __always_inline void pc_ct_drop_front(const struct pc_flow *flow)
{
	struct pc_tuple *front;

	if (!flow->nat.row)
		return;
	front = pc_front_of(flow);
	if (front)
		pc_ct_delete(front);
}
