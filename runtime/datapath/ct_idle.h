/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_idle.h - the states of a connection, and how long it may be silent in each.
 * Gives enum pc_ct_state, pc_idle_seconds().
 */
#pragma once
#include "ct_key.h"
#include <linux/in.h>

/* Seconds. */
#define PC_TCP_UNREPLIED   60
#define PC_TCP_ESTABLISHED (8 * 3600)
#define PC_TCP_HALF_CLOSED 3600 /* one way may go on sending */
#define PC_TCP_CLOSED      30   /* the last ACK, and retransmissions */
#define PC_TCP_RESET       10
#define PC_UNREPLIED       30
#define PC_REPLIED         180
#define PC_SCTP_REPLIED    3600
#define PC_DENIED_IDLE     3600 /* longer than the node's stack sends again */
#define PC_ICMP_OTHER      5    /* nothing answers it */

enum pc_ct_state {
	PC_CT_REPLIED = 1,
	PC_CT_FIN_SRC = 2,
	PC_CT_FIN_DST = 4,
	PC_CT_RESET = 8,
	PC_CT_NODE = 16,   /* opened by the node itself, which no policy is asked about (A22) */
	PC_CT_DENIED = 32, /* was allowed once; no policy since has allowed it */
	PC_CT_TRIED = 64,  /* to be kept */
	/* the host's stack has brought a packet for this end to its device */
	PC_CT_CAME_SRC = 128,
	PC_CT_CAME_DST = 256,
	PC_CT_NAT = 512,    /* translated: one of two entries */
	PC_CT_FRONT = 1024, /* that of the tuple with the Service's address */
	PC_CT_FAR =
	    2048, /* a client outside is answered by another node: no other entry (ct_far.h) */
};

#define PC_CT_FINS (PC_CT_FIN_SRC | PC_CT_FIN_DST)
#define PC_CT_CAME (PC_CT_CAME_SRC | PC_CT_CAME_DST)

static __always_inline __u32 pc_tcp_idle(__u32 state)
{
	if (state & PC_CT_RESET)
		return PC_TCP_RESET;
	if ((state & PC_CT_FINS) == PC_CT_FINS)
		return PC_TCP_CLOSED;
	if (!(state & PC_CT_REPLIED))
		return PC_TCP_UNREPLIED;
	return state & PC_CT_FINS ? PC_TCP_HALF_CLOSED : PC_TCP_ESTABLISHED;
}

static __always_inline __u32 pc_idle_seconds(__u8 proto, __u8 sub, __u32 state)
{
	if (state & PC_CT_DENIED)
		return PC_DENIED_IDLE;
	if (proto == IPPROTO_TCP)
		return pc_tcp_idle(state);
	if (sub == PC_SUB_ICMP_OTHER)
		return PC_ICMP_OTHER;
	if (!(state & PC_CT_REPLIED))
		return PC_UNREPLIED;
	return proto == IPPROTO_SCTP ? PC_SCTP_REPLIED : PC_REPLIED;
}
