/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct.h - which connection a packet belongs to, and whether it may use the entry.
 * Gives pc_ct_find(), pc_ct_sender(), pc_ct_receiver(), pc_ct_tells_opener(). ct_decided.h writes
 * decisions into an entry.
 */
#pragma once
#include "ct_store.h"

/* The state that is known about a packet's connection. */
struct pc_ct_match {
	struct pc_ct_at at; /* at.ct is NULL: no entry, or none that this packet may use */
	bool is_reply;
	bool is_fresh; /* the active policy has decided it, for every end of this node */
};

/* Between a SYN and its SYN-ACK no other packet belongs to the connection. An earlier connection
 * may have had the same ports, and its packets must not pass as packets of this one.
 */
static __always_inline bool pc_ct_is_before(const struct pc_ct *ct, const struct pc_flow *flow,
					    bool is_reply)
{
	if (!(ct->state & PC_CT_OPENING) || flow->packet.tcp_flags & PC_TCP_RST)
		return false;
	return is_reply ? !(flow->packet.tcp_flags & PC_TCP_SYN) : !flow->packet.is_opening;
}

/* The other end sends a SYN. It may have lost the connection, or may pretend to be the end that
 * opened it. The entry stays until a SYN-ACK answers that SYN.
 */
static __always_inline bool pc_ct_is_crossed(const struct pc_ct *ct, const struct pc_flow *flow)
{
	return pc_has_opening(flow->tuple.proto) && !(ct->state & (PC_CT_NODE | PC_CT_NAT));
}

/* A SYN-ACK from the end that opened the connection, after a SYN of the other end. */
static __always_inline bool pc_ct_is_reopened(const struct pc_ct *ct, const struct pc_flow *flow,
					      bool is_reply)
{
	return flow->packet.tcp_flags & PC_TCP_SYN && !flow->packet.is_opening && !is_reply &&
	       ct->state & PC_CT_CROSSED;
}

/* A packet that opens a flow uses no entry of the opposite direction, and no ended entry. */
static __always_inline struct pc_ct_match pc_ct_find(struct pc_flow *flow)
{
	struct pc_ct_match match = {.at = pc_ct_get(&flow->tuple, !flow->packet.is_opening)};
	struct pc_ct *ct = match.at.ct;

	match.at.ct = 0;
	flow->has_established_entry = match.at.is_established;
	if (!ct || ct->expires <= flow->now)
		return match;
	match.is_reply = match.at.back != ct->back;
	if (flow->packet.is_opening && match.is_reply && pc_ct_is_crossed(ct, flow))
		flow->opener = PC_OPENER_CROSSED;
	if (flow->packet.is_opening && (match.is_reply || pc_ct_is_over(ct)))
		return match;
	if (pc_ct_is_reopened(ct, flow, match.is_reply)) {
		/* The other end has opened a new connection. A denied entry no longer tells which
		 * end opened it: a SYN-ACK alone must neither reverse it nor belong to it.
		 */
		match.at.ct = ct->state & PC_CT_DENIED ? 0 : ct;
		match.is_reply = !!match.at.ct;
		return match;
	}
	if (pc_ct_is_before(ct, flow, match.is_reply))
		return match;
	match.at.ct = ct;
	match.is_fresh = ct->epoch == flow->epoch && pc_ct_is_decided(ct);
	return match;
}

static __always_inline struct pc_ct_end *pc_ct_sender(const struct pc_ct_match *match)
{
	return match->is_reply ? &match->at.ct->dst : &match->at.ct->src;
}

static __always_inline struct pc_ct_end *pc_ct_receiver(const struct pc_ct_match *match)
{
	return match->is_reply ? &match->at.ct->src : &match->at.ct->dst;
}

/* Whether the entry tells which end has opened the connection. A SYN-ACK from the end that opened
 * it shows by itself that the other end has opened a new connection.
 */
static __always_inline bool pc_ct_tells_opener(const struct pc_ct_match *match)
{
	bool is_reopened = match->is_reply == (match->at.back == match->at.ct->back);

	return is_reopened || !(match->at.ct->state & PC_CT_EITHER);
}
