/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* outside.h - connections of external clients to Services.
 * Gives pc_is_stranger(), pc_outside_known(), pc_outside_new(), pc_outside_decide(),
 * pc_to_outside().
 *
 * The node that a client comes to selects the node that answers. If it selects itself, the
 * connection has two entries, as a pod's has, with a client that is behind no device of ours.
 * Otherwise it has one entry under the client's tuple, with the other node. Packets are forwarded
 * to that node unchanged, and it handles them as if they had come to it. Why: docs/decisions/0024-*
 */
#pragma once
#include "ct_far.h"
#include "endpoints.h"
#include "host_end.h"
#include "nat_hooks.h"
#include "outside_map.h"
#include "way_back.h"

/* The next step, if the return value is no reason. */
#define PC_THEN_NEW    -1
#define PC_THEN_DECIDE -2

/* From outside: the source is neither a pod of this node nor the node. Fills flow->src. */
static __always_inline enum drop_reason pc_is_stranger(struct pc_flow *flow)
{
	pc_endpoint_at(flow->t.family, &flow->t.saddr, &flow->src);
	if (flow->src.ifindex || pc_is_own_node(flow->t.family, &flow->t.saddr))
		return PC_DROP_SPOOFED_IP;
	return PC_PASS;
}

/* Connections that the node itself serves; no policy decides them. Separate functions, as the BPF
 * stack has no room for both entries in one.
 */
__noinline int pc_outside_own(struct pc_flow *flow)
{
	return flow && pc_ct_insert_both(flow, 0, 0);
}

__noinline int pc_outside_renew(struct pc_flow *flow)
{
	return flow && pc_ct_renew(flow, 0, 0);
}

__noinline int pc_outside_front(struct pc_flow *flow)
{
	return flow && pc_ct_put_front(flow);
}

static __always_inline bool pc_outside_own_again(struct pc_flow *flow)
{
	return pc_outside_renew(flow) && pc_outside_front(flow);
}

/* The tuple is that of client and endpoint, and the packet is translated. */
static __always_inline enum drop_reason pc_outside_decide(struct __sk_buff *skb,
							  struct pc_flow *flow, __u32 word)
{
	int stored;

	pc_endpoint_at(flow->t.family, &flow->t.daddr, &flow->dst);
	if (word & PC_STATE_HOSTS)
		pc_host_receives(flow);
	if (flow->dst.ifindex)
		return pc_ask_policy(skb, word);
	if (!pc_is_own_node(flow->t.family, &flow->t.daddr))
		return PC_DROP_NO_NODE; /* no return path from there */
	stored = flow->entry == PC_ENTRY_RENEW ? pc_outside_own_again(flow) : pc_outside_own(flow);
	if (!stored)
		return PC_DROP_CT_FULL;
	pc_frag_record(flow);
	return PC_PASS;
}

/* A packet to a Service that opens a connection; nat.row stays 0 if it is to no Service. This and
 * the next function are separate, as the hook's stack is full.
 */
__noinline int pc_outside_new(struct __sk_buff *skb, struct pc_flow *flow, __u32 word)
{
	const struct pc_row *row;
	int reason;

	if (!flow)
		return PC_DROP_NO_NODE;
	reason = pc_service_pick(skb, flow, word);
	if (reason || !flow->nat.row)
		return reason;
	row = pc_row_of(flow->nat.row);
	if (!row)
		return PC_DROP_BACKEND_GONE;
	if (row->node && flow->client == PC_CLIENT_OUTSIDE)
		return pc_far_new(flow, row->node);
	reason = pc_nat_to_backend(skb, flow);
	return reason ? reason : PC_THEN_DECIDE;
}

/* The client now comes by another node: answers go back by that node. */
static __always_inline void pc_outside_moved(const struct pc_flow *flow, struct pc_ct *front)
{
	struct pc_ct *back = pc_ct_get(&flow->t, true).ct;

	if (!back || back->flow_id != front->flow_id)
		return;
	back->src.node = flow->node;
	front->src.node = flow->node;
}

/* A packet with a pre-NAT entry. The entry is looked up again: the 6.1 verifier rejects map writes
 * through a pointer argument.
 */
__noinline int pc_outside_known(struct __sk_buff *skb, struct pc_flow *flow, bool is_fresh)
{
	struct pc_ct_match match = {.is_fresh = is_fresh};
	struct pc_ct *ct;
	const struct pc_row *row;
	enum pc_front front;
	int reason;

	if (!flow)
		return PC_DROP_NO_NODE;
	match.at = pc_ct_get(&flow->t, true);
	ct = match.at.ct;
	if (!ct || !(ct->state & PC_CT_FRONT))
		return PC_THEN_NEW;
	if (ct->state & PC_CT_FAR && flow->client == PC_CLIENT_OUTSIDE &&
	    pc_far_known(flow, &match))
		return PC_PASS;
	row = ct->state & PC_CT_FAR ? 0 : pc_nat_row(ct->src.nat.row, flow->t.proto);
	if (!row)
		return PC_THEN_NEW;
	pc_tuple_translate(flow, row, ct->src.nat.row, ct->src.nat.port);
	if (ct->src.node != flow->node)
		pc_outside_moved(flow, ct);
	front = pc_front_touch(flow, &match, row);
	if (front == PC_FRONT_ALONE) {
		pc_tuple_front(&flow->t, &flow->nat);
		flow->nat.row = 0;
		flow->is_kept = match.at.is_kept;
		return PC_THEN_NEW;
	}
	/* Stack path, as for the answer: connection tracking that sees one direction only forgets
	 * the connection, and the host's own NAT takes the next answer for a new connection.
	 */
	reason = pc_nat_to_backend(skb, flow);
	if (reason)
		return reason;
	if (front == PC_FRONT_STALE) {
		flow->entry = PC_ENTRY_RENEW;
		return PC_THEN_DECIDE;
	}
	pc_frag_record(flow);
	return PC_PASS;
}

/* An endpoint's answer on its way out becomes the Service's, as the client knows it. Its entry may
 * be stale: the pod's own hook has just decided, and the node itself has no policy. flow->node is
 * the node to forward it to; 0: it leaves here.
 */
static __always_inline enum drop_reason pc_to_outside(struct __sk_buff *skb, struct pc_flow *flow,
						      struct pc_ct *ct)
{
	const struct pc_row *row = pc_nat_row(ct->dst.nat.row, flow->t.proto);
	const struct pc_addr6 *known;

	if (!row)
		return PC_DROP_BACKEND_GONE;
	known = pc_as_client_knows(row, flow->t.family, ct);
	if (pc_ct_note(ct, flow, true))
		pc_front_note(flow, ct, row, known);
	flow->frag_row = ct->dst.nat.row | PC_FRAG_REPLY;
	flow->node = ct->src.node;
	flow->partial = pc_partial_of(skb, flow);
	if (!pc_nat_addr(skb, flow, PC_NAT_SRC, &flow->t.saddr, known) ||
	    !pc_nat_port(skb, flow, PC_NAT_SRC, flow->t.sport, row->frontend_port) ||
	    !pc_nat_port(skb, flow, PC_NAT_DST, flow->t.dport, ct->dst.nat.port))
		return PC_DROP_MALFORMED;
	/* With the node, which later fragments need. */
	if (flow->fragment == PC_FRAG_FIRST)
		pc_frag_put(flow, PC_DETOUR_NOT, ct->dst.ifindex);
	if (pc_answers_leave_here(row))
		flow->node = 0;
	return PC_PASS;
}
