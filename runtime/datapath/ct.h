/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct.h - which connection a packet belongs to, and whether it may use the entry.
 * Gives pc_ct_find(), pc_ct_sender(), pc_ct_receiver(), pc_ct_tells_opener(). What a decision makes
 * of an entry is in ct_decided.h.
 */
#pragma once
#include "ct_store.h"

/* What is known about the connection that a packet belongs to. */
struct pc_ct_match {
	struct pc_ct_at at; /* at.ct NULL: nothing, or nothing that this packet may use */
	bool is_reply;
	bool is_fresh; /* decided by the policy in force, for every end of this node */
};

static __always_inline bool pc_ct_is_decided(const struct pc_ct *ct)
{
	__u8 need = (ct->src.ifindex ? PC_DECIDED_SRC : 0) | (ct->dst.ifindex ? PC_DECIDED_DST : 0);

	return !(ct->state & PC_CT_DENIED) && (ct->decided & need) == need;
}

/* Between the SYN and its SYN-ACK nothing else is of the connection: an older one may have had the
 * same ports, and its packets must not pass as those of this one.
 */
static __always_inline bool pc_ct_is_before(const struct pc_ct *ct, const struct pc_flow *flow,
					    bool is_reply)
{
	if (!(ct->state & PC_CT_OPENING) || flow->tcp_flags & PC_TCP_RST)
		return false;
	return is_reply ? !(flow->tcp_flags & PC_TCP_SYN) : !flow->opens;
}

/* The other end sends a SYN: it may have forgotten the connection, or may want to be taken for the
 * end that opened it. The entry stays until that is answered by a SYN-ACK.
 */
static __always_inline bool pc_ct_is_crossed(const struct pc_ct *ct, const struct pc_flow *flow)
{
	return pc_has_opening(flow->t.proto) && !(ct->state & (PC_CT_NODE | PC_CT_NAT));
}

/* A SYN-ACK of the end that opened the connection, after a SYN of the other end. */
static __always_inline bool pc_ct_is_reopened(const struct pc_ct *ct, const struct pc_flow *flow,
					      bool is_reply)
{
	return flow->tcp_flags & PC_TCP_SYN && !flow->opens && !is_reply &&
	       ct->state & PC_CT_CROSSED;
}

/* A packet that opens a flow uses no entry of a flow the other way, nor one that is over. */
static __always_inline struct pc_ct_match pc_ct_find(struct pc_flow *flow)
{
	struct pc_ct_match match = {.at = pc_ct_get(&flow->t, !flow->opens)};
	struct pc_ct *ct = match.at.ct;

	match.at.ct = 0;
	flow->is_kept = match.at.is_kept;
	if (!ct || ct->expires <= flow->now)
		return match;
	match.is_reply = match.at.back != ct->back;
	if (flow->opens && match.is_reply && pc_ct_is_crossed(ct, flow))
		flow->opener = PC_OPENER_CROSSED;
	if (flow->opens && (match.is_reply || pc_ct_is_over(ct)))
		return match;
	if (pc_ct_is_reopened(ct, flow, match.is_reply)) {
		/* Now the other end has opened another one. Of one that was denied, the entry no
		 * longer tells which end did: a SYN-ACK alone must not turn it, nor be of it.
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

/* Whether the entry tells which end has opened the connection. A SYN-ACK of the end that had opened
 * it tells by itself that the other one has opened another.
 */
static __always_inline bool pc_ct_tells_opener(const struct pc_ct_match *match)
{
	bool is_reopened = match->is_reply == (match->at.back == match->at.ct->back);

	return is_reopened || !(match->at.ct->state & PC_CT_EITHER);
}
