/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_state.h - what packets do to a connection.
 * Gives pc_ct_touch(), pc_ct_note(), pc_ct_is_over(), pc_ct_idle().
 */
#pragma once
#include "ct_map.h"
#include "parse_l4.h"

/* In the bits of pc_ct.state: of a pod's connection to the node port of another node, the number
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
 * makes a second's difference, so that the line is not bounced by every packet. True if the entry
 * was written.
 */
static __always_inline bool pc_ct_note(struct pc_ct *ct, const struct pc_flow *flow, bool is_reply)
{
	__u32 news = pc_ct_news(flow, is_reply);
	bool is_news = (ct->state & news) != news;
	__u64 expires;

	if (is_news)
		__sync_fetch_and_or(&ct->state, news);
	expires = flow->now + pc_ct_idle(flow, ct->state);
	if (expires > ct->expires + flow->second || expires < ct->expires) {
		ct->expires = expires;
		is_news = true;
	}
	return is_news;
}

/* Both ends have spoken, and the first one again: an answer alone may be one to a forged address,
 * and a question with one answer is soon over.
 */
static __always_inline bool pc_ct_is_settled(const struct pc_ct *ct, const struct pc_flow *flow,
					     bool is_reply)
{
	return !is_reply && !flow->opens && ct->state & PC_CT_REPLIED &&
	       !(ct->state & (PC_CT_RESET | PC_CT_FINS | PC_CT_DENIED));
}

/* What a packet that passes does to its entry, which may move: where there was no place it is tried
 * again when a second has passed.
 */
static __always_inline bool pc_ct_touch(const struct pc_ct_at *at, const struct pc_flow *flow,
					bool is_reply)
{
	bool is_written = pc_ct_note(at->ct, flow, is_reply);

	if (at->is_kept || !pc_ct_is_settled(at->ct, flow, is_reply))
		return false;
	if (at->ct->state & PC_CT_TRIED && !is_written)
		return false;
	__sync_fetch_and_or(&at->ct->state, PC_CT_TRIED);
	return pc_ct_keep(flow, at->ct);
}
