/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_pre_nat.h - a connection to a Service has two entries, as its directions have different
 * tuples. Gives pc_tuple_pre_nat(), pc_ct_insert_both(), pc_ct_put_pre_nat(), pc_ct_drop_pre_nat().
 *
 * The post-NAT entry has the tuple of client and endpoint: policies decide it, and replies find it.
 * The pre-NAT entry is a copy under client and Service. Both have the flow's id, and each holds all
 * that its packets need. Why: docs/decisions/0023-services.md
 */
#pragma once
#include "ct_decided.h"

/* Restores in the tuple what the client sent. */
static __always_inline void pc_tuple_pre_nat(struct pc_tuple *t, const struct pc_nat *nat)
{
	t->daddr = nat->daddr;
	t->dport = nat->dport;
	t->sport = nat->sport;
}

/* The tuple that the client sent, in this CPU's room. Never NULL; the check is for the verifier. */
static __always_inline struct pc_tuple *pc_pre_nat_of(const struct pc_flow *flow)
{
	struct pc_room *room = pc_room_here();

	if (!room)
		return 0;
	room->pre_nat = flow->tuple;
	pc_tuple_pre_nat(&room->pre_nat, &flow->nat);
	return &room->pre_nat;
}

/* Adds the pre-NAT entry after the post-NAT entry, so that a pre-NAT entry never exists alone. */
static __always_inline bool pc_ct_add_pre_nat(const struct pc_flow *flow, struct pc_ct *ct)
{
	struct pc_tuple *pre_nat = pc_pre_nat_of(flow);

	ct->state = (ct->state | PC_CT_PRE_NAT) & ~(PC_CT_TRIED | PC_CT_CAME_SRC | PC_CT_OPENING);
	ct->src.nat = (struct pc_ct_nat){.port = flow->tuple.sport, .backend = flow->nat.backend};
	if (pre_nat && pc_ct_put(flow, pre_nat, ct, flow->has_established_pre_nat))
		return true;
	pc_ct_delete(&flow->tuple);
	return false;
}

/* A new connection, with a pre-NAT entry if it goes to a Service. False when there is no room. */
static __always_inline bool pc_ct_insert_both(const struct pc_flow *flow, __u32 egress_rule,
					      __u32 ingress_rule)
{
	struct pc_ct *ct = pc_ct_of(flow, egress_rule, ingress_rule, pc_ct_opening(flow));

	if (!ct || !pc_ct_put(flow, &flow->tuple, ct, flow->has_established_entry))
		return false;
	ct->out = flow->came_by;
	return !flow->nat.backend || pc_ct_add_pre_nat(flow, ct);
}

/* The pre-NAT entry of a connection that was decided again. What the previous entry knew of the
 * path to the endpoint stays, as in pc_ct_renew(). False when there is no room.
 */
static __always_inline bool pc_ct_put_pre_nat(const struct pc_flow *flow)
{
	struct pc_room *room = pc_room_here();
	struct pc_ct *back, *old, *ct;
	struct pc_tuple *pre_nat;

	if (!flow->nat.backend)
		return true;
	back = pc_ct_get(&flow->tuple, true).ct;
	pre_nat = pc_pre_nat_of(flow);
	if (!back || !room || !pre_nat)
		return false;
	old = pc_ct_get(pre_nat, true).ct;
	ct = pc_room_ct(room);
	*ct = *back;
	if (!old || old->flow_id != ct->flow_id || !(old->state & PC_CT_CAME_DST))
		ct->state &= ~PC_CT_CAME_DST;
	else
		__builtin_memcpy(ct->dst.gateway, old->dst.gateway, sizeof(ct->dst.gateway));
	if (!old || old->flow_id != ct->flow_id || !ct->out)
		ct->out = 0;
	else if (ct->dst.ifindex)
		ct->out = old->out;
	else
		ct->dst = old->dst;
	return pc_ct_add_pre_nat(flow, ct);
}

/* Deletes the pre-NAT entry: no policy allows the connection any more. */
static __always_inline void pc_ct_drop_pre_nat(const struct pc_flow *flow)
{
	struct pc_tuple *pre_nat;

	if (!flow->nat.backend)
		return;
	pre_nat = pc_pre_nat_of(flow);
	if (pre_nat)
		pc_ct_delete(pre_nat);
}
