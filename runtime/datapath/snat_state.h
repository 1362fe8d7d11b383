/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* snat_state.h - how packets change a SNAT connection, and how long its port stays reserved.
 * Gives pc_snat_touch(), pc_snat_idle(), pc_snat_is_over().
 *
 * The wire-side entry reserves the port. An external host can forge packets that come in. So no
 * packet from outside shortens the reservation, except a FIN whose number the pod has acknowledged.
 * Why: docs/decisions/0045-when-a-port-is-free.md
 */
#pragma once
#include "snat_map.h"

/* In seconds. */
#define PC_SNAT_RESTS      120 /* after FINs in both directions */
#define PC_SNAT_OWN_RESET  10  /* until the same pod may reuse it for another port of its own */
#define PC_SNAT_OWN_CLOSED 30

#define PC_TCP_SEQ_AT  4
#define PC_TCP_ACK_AT  8
#define PC_TCP_DOFF_AT 12

static __always_inline bool pc_snat_is_closed(__u32 state)
{
	return (state & PC_CT_FINS) == PC_CT_FINS;
}

/* For how many ticks of silence lookups find the entries, and no other pod gets the port. */
static __always_inline __u64 pc_snat_idle(const struct pc_flow *flow, __u32 state)
{
	__u32 seconds = PC_TCP_ESTABLISHED;

	if (flow->tuple.proto != IPPROTO_TCP)
		return pc_ct_idle(flow, state);
	if (pc_snat_is_closed(state))
		seconds = PC_SNAT_RESTS;
	else if (!(state & PC_SNAT_ESTABLISHED))
		seconds = PC_TCP_UNREPLIED;
	return (__u64)seconds * flow->second;
}

/* The connection has ended, and was silent long enough for its own pod to reuse the port. */
static __always_inline bool pc_snat_is_over(const struct pc_flow *flow,
					    const struct pc_snat_entry *end)
{
	__u32 state = end->state;
	__u64 rests;

	if (flow->tuple.proto != IPPROTO_TCP)
		return false;
	if (state & PC_CT_RESET)
		rests = PC_SNAT_OWN_RESET;
	else if (pc_snat_is_closed(state))
		rests = PC_SNAT_OWN_CLOSED;
	else
		return false;
	return end->expires + rests * flow->second <= flow->now + pc_snat_idle(flow, state);
}

/* Records the number with which the pod will acknowledge this FIN from outside. False if the number
 * is unknown, as in a fragment.
 */
__noinline int pc_snat_fin_note(struct __sk_buff *skb, const struct pc_flow *flow,
				struct pc_snat_entry *end, struct pc_snat_entry *other)
{
	__u32 header, seq;
	__u8 doff;

	if (!flow || !end || !other || flow->packet.fragment ||
	    bpf_skb_load_bytes(skb, flow->packet.l4 + PC_TCP_SEQ_AT, &seq, sizeof(seq)) ||
	    bpf_skb_load_bytes(skb, flow->packet.l4 + PC_TCP_DOFF_AT, &doff, sizeof(doff)))
		return false;
	header = flow->packet.l4 + (doff >> 4) * 4U;
	if (header > flow->packet.ip_end)
		return false;
	seq = bpf_ntohl(seq) + (flow->packet.ip_end - header) + 1;
	end->fin = seq;
	other->fin = seq;
	return true;
}

/* Compares the pod's packet with the recorded FIN. If it acknowledges exactly that FIN, the FIN
 * counts. If it acknowledges more, the packet was no real FIN.
 */
__noinline int pc_snat_fin_state(struct __sk_buff *skb, const struct pc_flow *flow,
				 const struct pc_snat_entry *end, __u32 state)
{
	__s32 past;
	__u32 ack;

	if (!flow || !end || !(flow->packet.tcp_flags & PC_TCP_ACK) ||
	    bpf_skb_load_bytes(skb, flow->packet.l4 + PC_TCP_ACK_AT, &ack, sizeof(ack)))
		return state;
	past = bpf_ntohl(ack) - end->fin;
	if (!past)
		return state | PC_CT_FIN_DST;
	return past > 0 ? state & ~(PC_CT_FIN_DST | PC_SNAT_FIN_SEEN) : state;
}

/* The state after the packet, without a FIN from outside. A later packet cancels a RST. A SYN on
 * the ports of an ended connection opens a new connection, which keeps at least the old
 * reservation.
 */
static __always_inline __u32 pc_snat_next(struct __sk_buff *skb, const struct pc_flow *flow,
					  const struct pc_snat_entry *end, __u32 was, bool is_reply)
{
	__u32 news = pc_ct_news(flow, is_reply) & ~PC_CT_FIN_DST, state = was | news;
	bool is_reset = flow->packet.tcp_flags & PC_TCP_RST;

	if (flow->tuple.proto != IPPROTO_TCP)
		return is_reply                 ? state | PC_SNAT_ANSWERED
		       : was & PC_SNAT_ANSWERED ? state | PC_SNAT_ESTABLISHED
						: state;
	if (!is_reply && flow->packet.is_opening && was & (PC_CT_RESET | PC_CT_FINS))
		return pc_snat_is_closed(was) ? news : news | (was & PC_SNAT_ESTABLISHED);
	if (!is_reset)
		state &= ~PC_CT_RESET;
	if (is_reply)
		return is_reset ? state : state | PC_SNAT_ANSWERED;
	if (was & PC_SNAT_ANSWERED && !is_reset && !(flow->packet.tcp_flags & PC_TCP_SYN))
		state |= PC_SNAT_ESTABLISHED;
	return was & PC_SNAT_FIN_SEEN ? pc_snat_fin_state(skb, flow, end, state) : state;
}

/* Clears and sets bits of the entry, and sets its time. Only FINs in both directions shorten that
 * time.
 */
static __always_inline void pc_snat_set(struct pc_snat_entry *end, __u32 was, __u32 then,
					__u64 expires)
{
	bool is_closed = pc_snat_is_closed(then) && !pc_snat_is_closed(was);

	__sync_fetch_and_and(&end->state, ~(was & ~then));
	__sync_fetch_and_or(&end->state, then);
	if (is_closed || expires > end->expires)
		end->expires = expires;
}

/* Updates the connection for a packet. Updates the other entry once a second, when the state
 * changes, and while no reply came. False: the other entry is gone. The function overwrites the
 * key.
 */
static __always_inline bool pc_snat_touch(struct __sk_buff *skb, const struct pc_flow *flow,
					  struct pc_snat_key *key, struct pc_snat_entry *end,
					  bool is_reply)
{
	__u32 was = end->state & ~PC_SNAT_TAKING;
	__u32 then = pc_snat_next(skb, flow, end, was, is_reply);
	bool is_fin = is_reply && flow->tuple.proto == IPPROTO_TCP &&
		      flow->packet.tcp_flags & PC_TCP_FIN && !(was & PC_CT_FIN_DST);
	__u64 expires = flow->now + pc_snat_idle(flow, then);
	struct pc_snat_entry *other;

	if (then == was && was & PC_CT_REPLIED && !is_fin && expires <= end->expires + flow->second)
		return true;
	other = pc_snat_other(flow, key, end);
	if (!other)
		return false;
	if (is_fin && pc_snat_fin_note(skb, flow, end, other))
		then |= PC_SNAT_FIN_SEEN;
	pc_snat_set(end, was, then, expires);
	pc_snat_set(other, was, then, expires);
	return true;
}
