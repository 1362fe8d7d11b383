/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_state.h - what packets do to a connection: TCP's states, and how long an entry lives.
 * Gives pc_ct_note(), pc_ct_is_over(), pc_ct_idle().
 */
#pragma once
#include "ct_map.h"
#include "parse_l4.h"

/* Seconds. */
#define PC_TCP_UNREPLIED   60
#define PC_TCP_ESTABLISHED (8 * 3600)
#define PC_TCP_HALF_CLOSED 3600 /* one way may go on sending */
#define PC_TCP_CLOSED      30   /* the last ACK, and retransmissions */
#define PC_TCP_RESET       10
#define PC_UNREPLIED       30
#define PC_REPLIED         180
#define PC_SCTP_REPLIED    3600
#define PC_DENIED_IDLE     (8 * 3600) /* of TCP and SCTP: as long as if it were allowed */
#define PC_ICMP_OTHER      5          /* nothing answers it */

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
	PC_CT_OPENING = 4096, /* opened by a SYN that has no SYN-ACK yet (or INIT, INIT ACK) */
	PC_CT_CROSSED = 8192, /* the other end was allowed to send a SYN, too */
	PC_CT_EITHER = 16384, /* nothing tells which end opened it: both directions are allowed */
	/* of host SNAT: the peer has extended the idle time since the forwarded end spoke */
	PC_CT_HEARD = 32768,
	PC_CT_CLAIMED =
	    65536, /* PC_CT_EITHER, until the end that is said to have opened it sends */
};

/* In the bits of `state` above: of a pod's connection to the node port of another node, the number
 * of the address (outside_map.h).
 */
#define PC_CT_NODE_AT 18

/* Of a connection of the node itself that came to a Service by a route (to_route.h). */
static __always_inline bool pc_is_routed(const struct pc_ct *ct)
{
	return (ct->state & (PC_CT_NAT | PC_CT_NODE)) == (PC_CT_NAT | PC_CT_NODE);
}

/* By which node's address the client of a Service knows that; 0: by this one's, or it is no node
 * port.
 */
static __always_inline __u32 pc_ct_node(const struct pc_ct *ct)
{
	return ct->src.ifindex ? ct->state >> PC_CT_NODE_AT : ct->src.node;
}

static __always_inline __u32 pc_ct_node_bits(const struct pc_flow *flow)
{
	return flow->src.ifindex ? flow->node << PC_CT_NODE_AT : 0;
}

/* Of a translated connection. What the front finds is for the endpoint, what the entry proper finds
 * for the client: each has the gateway of that end, and this in the place of the other's.
 */
static __always_inline struct pc_ct_nat *pc_ct_nat_of(struct pc_ct *ct)
{
	return ct->state & PC_CT_FRONT ? &ct->src.nat : &ct->dst.nat;
}

#define PC_CT_FINS (PC_CT_FIN_SRC | PC_CT_FIN_DST)
#define PC_CT_CAME (PC_CT_CAME_SRC | PC_CT_CAME_DST)

/* Only its first packet opens a connection: in the middle nothing in a packet tells who did. */
static __always_inline bool pc_has_opening(__u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_SCTP;
}

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
	if (state & PC_CT_DENIED && pc_has_opening(proto))
		return PC_DENIED_IDLE;
	if (proto == IPPROTO_TCP)
		return pc_tcp_idle(state);
	if (sub == PC_SUB_ICMP_OTHER)
		return PC_ICMP_OTHER;
	if (!(state & PC_CT_REPLIED))
		return PC_UNREPLIED;
	return proto == IPPROTO_SCTP ? PC_SCTP_REPLIED : PC_REPLIED;
}

/* How many ticks the connection may be silent. */
static __always_inline __u64 pc_ct_idle(const struct pc_flow *flow, __u32 state)
{
	return (__u64)pc_idle_seconds(flow->t.proto, flow->t.sub, state) * flow->second;
}

/* A SYN now asks for another connection between the same ports. */
static __always_inline bool pc_ct_is_over(const struct pc_ct *ct)
{
	return ct->state & (PC_CT_RESET | PC_CT_FINS);
}

/* The state of a connection that the packet begins, as far as its handshake goes. */
static __always_inline __u32 pc_ct_opening(const struct pc_flow *flow)
{
	return flow->opens && pc_has_opening(flow->t.proto) ? PC_CT_OPENING : 0;
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

/* The entry lives for another idle time. True if it was written. */
static __always_inline bool pc_ct_stay(struct pc_ct *ct, const struct pc_flow *flow)
{
	__u64 expires = flow->now + pc_ct_idle(flow, ct->state);

	if (expires <= ct->expires + flow->second && expires >= ct->expires)
		return false;
	ct->expires = expires;
	return true;
}

/* Both CPUs of a connection write here: bits only ever get set, and the time is moved when that
 * makes a second's difference, so that the line is not bounced by every packet. True if the entry
 * was written.
 */
static __always_inline bool pc_ct_note(struct pc_ct *ct, const struct pc_flow *flow, bool is_reply)
{
	__u32 news = pc_ct_news(flow, is_reply);
	bool is_news = (ct->state & news) != news;

	if (is_news)
		__sync_fetch_and_or(&ct->state, news);
	if (ct->state & PC_CT_OPENING && is_reply && flow->tcp_flags & PC_TCP_SYN)
		__sync_fetch_and_and(&ct->state, ~PC_CT_OPENING);
	if (ct->state & PC_CT_CLAIMED && !is_reply && !(flow->tcp_flags & PC_TCP_RST))
		__sync_fetch_and_and(&ct->state, ~(PC_CT_CLAIMED | PC_CT_EITHER));
	return pc_ct_stay(ct, flow) || is_news;
}
