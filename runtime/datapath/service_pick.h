/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* service_pick.h - which endpoint of a Service a new connection goes to, and from which port.
 * Gives pc_service_pick(), which fills flow->nat and translates the tuple, not yet the packet.
 */
#pragma once
#include "ct_front.h"
#include "endpoints.h"
#include "hairpin_addr.h"
#include "maglev.h"
#include "node_port.h"
#include "service_affinity.h"
#include "service_map.h"
#include "source_range.h"

#define PC_PICKS 8 /* ports that are tried, and endpoints that a client may not have */

/* Of TCP and SCTP only what opens a connection is given an endpoint. */
static __always_inline bool pc_service_opens(const struct pc_flow *flow)
{
	return flow->opens || flow->t.proto == IPPROTO_UDP;
}

/* Whether the client may be given itself: its own hook turns such a packet around (hairpin.h). One
 * that is not of this node would get a packet that comes from its own address.
 */
static __always_inline bool pc_may_be_itself(const struct pc_flow *flow)
{
	return flow->client == PC_CLIENT_POD || flow->client == PC_CLIENT_NODE;
}

/* Whether the client may be given the endpoint. */
static __always_inline bool pc_is_for_client(const struct pc_flow *flow, const struct pc_row *row)
{
	return row && (pc_may_be_itself(flow) || !pc_addr_eq(&row->backend, &flow->t.saddr));
}

/* By a table, or by chance; the next one where the client may not have that. A client that is to
 * stay where it is has one place in the table, not one for each port.
 */
static __always_inline const struct pc_row *pc_service_choose(const struct pc_flow *flow,
							      const struct pc_frontend *frontend,
							      const struct pc_part *part,
							      __u32 word)
{
	const struct pc_row *row = 0;
	__u32 n;

	if (part->slots)
		n = pc_maglev_nth(&flow->t, part, !frontend->affinity, word);
	else
		n = bpf_get_prandom_u32() % part->count;
	if (n >= part->count)
		n = 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_PICKS; i++) {
		row = pc_choice(part, n, word);
		if (pc_is_for_client(flow, row))
			break;
		n = n + 1 < part->count ? n + 1 : 0;
	}
	return row;
}

/* The one that the client had, where the Service asks for that. */
static __always_inline const struct pc_row *pc_service_row(const struct pc_flow *flow,
							   const struct pc_frontend *frontend,
							   const struct pc_part *part, __u32 word)
{
	const struct pc_row *row = 0;

	if (frontend->affinity)
		row = pc_affine(flow, frontend, part, word);
	if (!pc_is_for_client(flow, row))
		row = pc_service_choose(flow, frontend, part, word);
	return row;
}

/* What a pod sends in the name of another is found out later, and not remembered. */
static __always_inline bool pc_is_remembered(const struct __sk_buff *skb, struct pc_flow *flow)
{
	if (flow->client != PC_CLIENT_POD)
		return true;
	pc_endpoint_at(flow->t.family, &flow->t.saddr, &flow->src);
	return flow->src.ifindex == skb->ifindex;
}

/* Makes the tuple that of client and endpoint; what was there is in flow->nat. */
static __always_inline void pc_tuple_translate(struct pc_flow *flow, const struct pc_row *row,
					       __u32 id, __be16 port)
{
	flow->nat.daddr = flow->t.daddr;
	flow->nat.dport = flow->t.dport;
	flow->nat.sport = flow->t.sport;
	flow->nat.row = id;
	flow->t.daddr = row->backend;
	flow->t.dport = row->backend_port;
	flow->t.sport = port;
}

/* Whether a connection that goes on has the tuple, or any that the endpoint has opened. If not,
 * flow->is_kept is about it.
 */
static __always_inline bool pc_service_is_taken(struct pc_flow *flow)
{
	struct pc_ct_at at = pc_ct_get(&flow->t, true);

	flow->is_kept = at.is_kept;
	if (!at.ct || at.ct->expires <= flow->now)
		return false;
	if (at.ct->back != at.back && pc_has_opening(flow->t.proto))
		return true;
	return !(at.ct->state & PC_CT_DENIED) && !pc_ct_is_over(at.ct);
}

/* The client's own port, or another one where the tuple is taken: it may have the same port for the
 * endpoint itself, or for another address of the Service. False when none that was tried is free. A
 * function of its own for its stack.
 */
__noinline int pc_service_port(struct pc_flow *flow)
{
	if (!flow)
		return false;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_PICKS; i++) {
		if (!pc_service_is_taken(flow))
			return true;
		if (flow->t.proto == IPPROTO_SCTP)
			return false; /* whose checksum covers the port */
		flow->t.sport = bpf_htons(0x8000 | bpf_get_prandom_u32());
	}
	return false;
}

/* Whether who finds no endpoint is told, as kube-proxy has it: not where a traffic policy keeps him
 * from endpoints of other nodes, as a load balancer may send him there yet.
 */
static __always_inline bool pc_service_refuses(const struct pc_frontend *frontend, __u8 client)
{
	return !frontend->count && !(frontend->flags & PC_FRONTEND_ELSEWHERE) &&
	       client != PC_CLIENT_HANDED;
}

static __always_inline int pc_service_picked(struct __sk_buff *skb, struct pc_flow *flow,
					     __u32 word)
{
	const struct pc_frontend *frontend;
	const struct pc_row *row;
	struct pc_part part;
	bool is_hairpin, has_port;

	frontend = pc_frontend_of(&flow->t, word);
	if (!frontend && pc_node_port(flow, word))
		frontend = pc_frontend_of(&flow->t, word);
	if (!frontend)
		return PC_PASS;
	if (!pc_service_opens(flow))
		return PC_DROP_BACKEND_GONE;
	if (frontend->ranges && !pc_is_in_range(&flow->t.saddr, frontend->ranges, word))
		return PC_DROP_SOURCE_RANGE;
	part = pc_part_of(frontend, flow->client);
	if (!part.count) {
		flow->is_refused = pc_service_refuses(frontend, flow->client);
		return PC_DROP_NO_BACKEND;
	}
	row = pc_service_row(flow, frontend, &part, word);
	if (!row || !pc_row_is_at(row, &flow->t))
		return PC_DROP_NO_BACKEND;
	if (frontend->affinity && pc_is_remembered(skb, flow))
		pc_affine_note(flow, frontend, row);
	if (pc_is_at_itself(flow, row))
		return PC_PASS; /* the endpoint has the Service's address: nothing to translate */
	pc_tuple_translate(flow, row, row->id, flow->t.sport);
	flow->is_front_kept = flow->is_kept;
	is_hairpin = pc_addr_eq(&row->backend, &flow->t.saddr);
	if (is_hairpin)
		pc_hairpin_address(&flow->t.saddr, flow->t.family);
	has_port = pc_service_port(flow);
	if (is_hairpin)
		flow->t.saddr = flow->t.daddr;
	if (!has_port)
		return PC_DROP_NAT_TAKEN;
	return is_hairpin ? PC_DROP_HAIRPIN : PC_PASS;
}

/* The tuple of a packet that belongs to nothing known. Leaves flow->nat.row 0 if it goes to no
 * Service; else the tuple is that of client and endpoint afterwards. A function of its own, so that
 * the verifier goes through it once.
 */
__noinline int pc_service_pick(struct __sk_buff *skb, struct pc_flow *flow, __u32 word)
{
	int reason;

	if (!flow)
		return PC_DROP_NO_BACKEND;
	if (flow->client == PC_CLIENT_POD)
		flow->node = 0;
	reason = pc_service_picked(skb, flow, word);
	if (flow->node)
		pc_node_port_sent(flow);
	return reason;
}
