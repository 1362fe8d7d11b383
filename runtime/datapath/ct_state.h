/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_state.h - what packets do to a connection: TCP's states, and how long an entry lives.
 * Gives pc_ct_touch(), pc_ct_is_over(), pc_ct_idle_ns().
 */
#pragma once
#include "ct_map.h"
#include "parse_l4.h"

#define PC_SECOND          1000000000ULL
#define PC_TCP_UNREPLIED   (60 * PC_SECOND)
#define PC_TCP_ESTABLISHED (8 * 3600 * PC_SECOND)
#define PC_TCP_HALF_CLOSED (3600 * PC_SECOND) /* one way may go on sending */
#define PC_TCP_CLOSED      (30 * PC_SECOND)   /* the last ACK, and retransmissions */
#define PC_TCP_RESET       (10 * PC_SECOND)
#define PC_UNREPLIED       (30 * PC_SECOND)
#define PC_REPLIED         (180 * PC_SECOND)
#define PC_SCTP_REPLIED    (3600 * PC_SECOND)
#define PC_DENIED_IDLE     (3600 * PC_SECOND) /* longer than the node's stack sends again */
#define PC_ICMP_OTHER      (5 * PC_SECOND)    /* nothing answers it */

enum pc_ct_state {
	PC_CT_REPLIED = 1,
	PC_CT_FIN_SRC = 2,
	PC_CT_FIN_DST = 4,
	PC_CT_RESET = 8,
	PC_CT_NODE = 16,   /* opened by the node itself, which no policy is asked about (A22) */
	PC_CT_DENIED = 32, /* was allowed once; no policy since has allowed it */
};

#define PC_CT_FINS (PC_CT_FIN_SRC | PC_CT_FIN_DST)

static __always_inline __u64 pc_tcp_idle_ns(__u32 state)
{
	if (state & PC_CT_RESET)
		return PC_TCP_RESET;
	if ((state & PC_CT_FINS) == PC_CT_FINS)
		return PC_TCP_CLOSED;
	if (!(state & PC_CT_REPLIED))
		return PC_TCP_UNREPLIED;
	return state & PC_CT_FINS ? PC_TCP_HALF_CLOSED : PC_TCP_ESTABLISHED;
}

/* How long the connection may be silent. */
static __always_inline __u64 pc_ct_idle_ns(const struct pc_tuple *t, __u32 state)
{
	if (state & PC_CT_DENIED)
		return PC_DENIED_IDLE;
	if (t->proto == IPPROTO_TCP)
		return pc_tcp_idle_ns(state);
	if (t->sub == PC_SUB_ICMP_OTHER)
		return PC_ICMP_OTHER;
	if (!(state & PC_CT_REPLIED))
		return PC_UNREPLIED;
	return t->proto == IPPROTO_SCTP ? PC_SCTP_REPLIED : PC_REPLIED;
}

/* A SYN now asks for another connection between the same ports. */
static __always_inline bool pc_ct_is_over(const struct pc_ct *ct)
{
	return ct->state & (PC_CT_RESET | PC_CT_FINS);
}

/* What this packet adds to the state. */
static __always_inline __u32 pc_ct_news(const struct pc_flow *flow, bool is_reply)
{
	__u32 news = is_reply ? PC_CT_REPLIED : 0;

	if (flow->t.proto != IPPROTO_TCP)
		return news;
	if (flow->tcp_flags & PC_TCP_RST)
		news |= PC_CT_RESET;
	if (flow->tcp_flags & PC_TCP_FIN)
		news |= is_reply ? PC_CT_FIN_DST : PC_CT_FIN_SRC;
	return news;
}

/* Both CPUs of a connection write here: bits only ever get set, and the time is moved when that
 * makes a second's difference, so that the line is not bounced by every packet.
 */
static __always_inline void pc_ct_touch(struct pc_ct *ct, const struct pc_flow *flow, bool is_reply)
{
	__u32 news = pc_ct_news(flow, is_reply);
	__u64 expires;

	if ((ct->state & news) != news)
		__sync_fetch_and_or(&ct->state, news);
	expires = flow->now_ns + pc_ct_idle_ns(&flow->t, ct->state);
	if (expires > ct->expires_ns + PC_SECOND || expires < ct->expires_ns)
		ct->expires_ns = expires;
}
