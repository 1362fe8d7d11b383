/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_state.h - how packets change a connection: TCP's states, and how long an entry lives.
 * Gives pc_ct_note(), pc_ct_is_over(), pc_ct_is_decided(), pc_ct_idle().
 */
#pragma once
#include "ct_map.h"
#include "parse_l4.h"

/* In seconds. */
#define PC_TCP_UNREPLIED   60
#define PC_TCP_ESTABLISHED (8 * 3600)
#define PC_TCP_HALF_CLOSED 3600 /* one direction may continue to send */
#define PC_TCP_CLOSED      30   /* for the last ACK and retransmissions */
#define PC_TCP_RESET       10
#define PC_UNREPLIED       30
#define PC_REPLIED         180
#define PC_SCTP_REPLIED    3600
#define PC_DENIED_IDLE     (8 * 3600) /* TCP and SCTP: as long as if allowed */
#define PC_ICMP_OTHER      5          /* ICMP messages without a reply */

enum pc_ct_state {
	PC_CT_REPLIED = 1,
	PC_CT_FIN_SRC = 2,
	PC_CT_FIN_DST = 4,
	PC_CT_RESET = 8,
	PC_CT_NODE = 16,   /* opened by the node itself, which no policy decides (A22) */
	PC_CT_DENIED = 32, /* was allowed once; no policy since then has allowed it */
	PC_CT_TRIED = 64,  /* the move to the established table was tried */
	/* the stack path has brought a packet for this end to its device, or would only route it */
	PC_CT_CAME_SRC = 128,
	PC_CT_CAME_DST = 256,
	PC_CT_NAT = 512,         /* translated: one of two entries */
	PC_CT_PRE_NAT = 1024,    /* the entry under the Service's address (pre-NAT) */
	PC_CT_OTHER_NODE = 2048, /* another node answers the external client: there is no other
				    entry (ct_other_node.h) */
	PC_CT_OPENING = 4096,    /* opened by a SYN without a SYN-ACK yet (or INIT, INIT ACK) */
	PC_CT_CROSSED = 8192,    /* the other end was allowed to send a SYN, too */
	PC_CT_EITHER = 16384,    /* the opener is unknown: both directions are allowed */
	/* host SNAT: the peer has extended the idle time since the forwarded end sent */
	PC_CT_HEARD = 32768,
	PC_CT_CLAIMED =
	    65536, /* PC_CT_EITHER, until the end that is believed to be the opener sends */
	/* the pod's packets leave unchanged: to_uplink has seen one under this decision */
	PC_CT_LEAVES = 131072,
};

/* Above the bits of `state`: the number of a node's address (external_map.h), 0 for this node. With
 * PC_CT_OTHER_NODE, the node that has the endpoint. Otherwise, for a connection to a Service: the
 * node that an external client came to, or to whose node port a pod sent.
 */
#define PC_CT_NODE_AT 18
#define PC_CT_STATES  ((1U << PC_CT_NODE_AT) - 1)

/* For a connection of the node itself that reached a Service by a route (to_route.h). */
static __always_inline bool pc_is_routed(const struct pc_ct *ct)
{
	return (ct->state & (PC_CT_NAT | PC_CT_NODE)) == (PC_CT_NAT | PC_CT_NODE);
}

static __always_inline __u32 pc_ct_node(const struct pc_ct *ct)
{
	return ct->state >> PC_CT_NODE_AT;
}

/* If another CPU changes the state at the same time, the node stays as it is until the next packet.
 */
static __always_inline void pc_ct_set_node(struct pc_ct *ct, __u32 node)
{
	__u32 was = ct->state, state = (was & PC_CT_STATES) | node << PC_CT_NODE_AT;

	if (state != was)
		__sync_val_compare_and_swap(&ct->state, was, state);
}

/* The translation of a connection. The pre-NAT entry is found by packets to the endpoint, the
 * post-NAT entry by packets to the client. Each has this in place of its sender's gateway.
 */
static __always_inline struct pc_ct_nat *pc_ct_nat_of(struct pc_ct *ct)
{
	return ct->state & PC_CT_PRE_NAT ? &ct->src.nat : &ct->dst.nat;
}

#define PC_CT_FINS (PC_CT_FIN_SRC | PC_CT_FIN_DST)
#define PC_CT_CAME (PC_CT_CAME_SRC | PC_CT_CAME_DST)

/* Only the first packet opens a connection: in the middle no packet tells which end opened it. */
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
	return (__u64)pc_idle_seconds(flow->tuple.proto, flow->tuple.sub, state) * flow->second;
}

/* The connection has ended: a SYN now opens a new connection between the same ports. */
static __always_inline bool pc_ct_is_over(const struct pc_ct *ct)
{
	return ct->state & (PC_CT_RESET | PC_CT_FINS);
}

/* The policy of every end of this node has allowed it. */
static __always_inline bool pc_ct_is_decided(const struct pc_ct *ct)
{
	__u8 need = (ct->src.ifindex ? PC_DECIDED_SRC : 0) | (ct->dst.ifindex ? PC_DECIDED_DST : 0);

	return !(ct->state & PC_CT_DENIED) && (ct->decided & need) == need;
}

/* The state of a connection that the packet opens, up to this step of its handshake. */
static __always_inline __u32 pc_ct_opening(const struct pc_flow *flow)
{
	return flow->packet.is_opening && pc_has_opening(flow->tuple.proto) ? PC_CT_OPENING : 0;
}

/* The bits that this packet adds to the state. */
static __always_inline __u32 pc_ct_news(const struct pc_flow *flow, bool is_reply)
{
	__u32 news = is_reply ? PC_CT_REPLIED : 0;

	if (flow->tuple.proto != IPPROTO_TCP)
		return news;
	if (flow->packet.tcp_flags & PC_TCP_RST)
		news |= PC_CT_RESET;
	if (flow->packet.tcp_flags & PC_TCP_FIN)
		news |= is_reply ? PC_CT_FIN_DST : PC_CT_FIN_SRC;
	return news;
}

/* Extends the entry by another idle time. True if this wrote the entry. */
static __always_inline bool pc_ct_stay(struct pc_ct *ct, const struct pc_flow *flow)
{
	__u64 expires = flow->now + pc_ct_idle(flow, ct->state);

	if (expires <= ct->expires + flow->second && expires >= ct->expires)
		return false;
	ct->expires = expires;
	return true;
}

/* Both CPUs of a connection write here. So bits are only ever set, and the time is written only
 * when it changes by a second: the cache line does not bounce for every packet. True if this wrote
 * the entry.
 */
static __always_inline bool pc_ct_note(struct pc_ct *ct, const struct pc_flow *flow, bool is_reply)
{
	__u32 news = pc_ct_news(flow, is_reply);
	bool is_news = (ct->state & news) != news;

	if (is_news)
		__sync_fetch_and_or(&ct->state, news);
	if (ct->state & PC_CT_OPENING && is_reply && flow->packet.tcp_flags & PC_TCP_SYN)
		__sync_fetch_and_and(&ct->state, ~PC_CT_OPENING);
	if (ct->state & PC_CT_CLAIMED && !is_reply && !(flow->packet.tcp_flags & PC_TCP_RST))
		__sync_fetch_and_and(&ct->state, ~(PC_CT_CLAIMED | PC_CT_EITHER));
	return pc_ct_stay(ct, flow) || is_news;
}
