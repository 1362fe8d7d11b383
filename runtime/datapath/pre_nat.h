/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* pre_nat.h - how a packet to a Service updates the two entries of its connection (ct_pre_nat.h).
 * Gives pc_pre_nat_touch().
 */
#pragma once
#include "service_pick.h"

/* The result for a packet that finds the pre-NAT entry of its connection. */
enum pc_pre_nat { PC_PRE_NAT_PASSED, PC_PRE_NAT_STALE, PC_PRE_NAT_WITHOUT_POST };

/* The pre-NAT entry becomes established after the post-NAT entry, so that it is never there alone.
 * The match is looked up again: the old entry's memory may now hold another connection.
 */
static __always_inline void pc_pre_nat_establish(struct pc_flow *flow, struct pc_ct_match *match,
						 const struct pc_backend *backend)
{
	__be16 port = flow->tuple.sport;

	__sync_fetch_and_or(&match->at.ct->state, PC_CT_TRIED);
	pc_tuple_pre_nat(&flow->tuple, &flow->nat);
	if (pc_ct_establish(flow, match->at.ct))
		match->at = pc_ct_get(&flow->tuple, true);
	pc_tuple_translate(flow, backend, flow->nat.backend, port);
}

/* Updates the post-NAT entry, and reads its news: whenever the pre-NAT entry is written (once a
 * second), and while that entry may be evicted. Expects the translated tuple. match->at.ct may be
 * NULL afterwards.
 */
static __always_inline enum pc_pre_nat
pc_pre_nat_touch(struct pc_flow *flow, struct pc_ct_match *match, const struct pc_backend *backend)
{
	struct pc_ct *ct = match->at.ct;
	bool is_written = match->is_fresh && pc_ct_note(ct, flow, false);
	struct pc_ct_at back;
	__u32 news;

	if (match->is_fresh && !is_written && match->at.is_established && !flow->packet.is_opening)
		return PC_PRE_NAT_PASSED;
	flow->has_established_pre_nat = match->at.is_established;
	back = pc_ct_get(&flow->tuple, true);
	flow->has_established_entry = back.is_established;
	if (!back.ct || back.ct->expires <= flow->now)
		return PC_PRE_NAT_STALE;
	if (back.ct->flow_id != ct->flow_id || (flow->packet.is_opening && pc_ct_is_over(back.ct)))
		return PC_PRE_NAT_WITHOUT_POST;
	if (!match->is_fresh || back.ct->epoch != flow->epoch)
		return PC_PRE_NAT_STALE;
	if (back.ct->state & ~ct->state & PC_CT_CAME_DST) /* learnt by an entry that has moved */
		__sync_fetch_and_and(&back.ct->state, ~PC_CT_CAME_DST);
	news = back.ct->state & (PC_CT_REPLIED | PC_CT_FINS | PC_CT_RESET | PC_CT_CAME_SRC) &
	       ~ct->state;
	if (news)
		__sync_fetch_and_or(&ct->state, news);
	if (pc_ct_touch(&back, flow, false))
		flow->has_established_entry = true;
	if (flow->has_established_entry && !match->at.is_established &&
	    pc_ct_is_settled(ct, flow, false) && (is_written || !(ct->state & PC_CT_TRIED)))
		pc_pre_nat_establish(flow, match, backend);
	return PC_PRE_NAT_PASSED;
}
