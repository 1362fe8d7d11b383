/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* service_pick.h - selects the endpoint of a new connection to a Service, and its source port.
 * Gives pc_service_pick(), which fills flow->nat and translates the tuple, not yet the packet.
 */
#pragma once
#include "ct_pre_nat.h"
#include "endpoints.h"
#include "hairpin_addr.h"
#include "maglev.h"
#include "node_port.h"
#include "service_affinity.h"
#include "service_map.h"
#include "source_range.h"

#define PC_PICKS 8 /* ports that are tried, and unusable endpoints that are skipped */

/* With TCP and SCTP only an opening packet gets an endpoint of this node. */
static __always_inline bool pc_service_opens(const struct pc_flow *flow)
{
	return flow->packet.is_opening || flow->tuple.proto == IPPROTO_UDP;
}

/* An external client continues a connection that this node does not know: the node has lost its
 * entry, or the client came by another node before. By the Maglev table all nodes choose the same
 * endpoint, whose node has the connection's entry. (With session affinity a node may remember
 * another endpoint; the packet is dropped there.)
 */
static __always_inline bool pc_service_goes_on(const struct pc_flow *flow,
					       const struct pc_pool *pool)
{
	return flow->client == PC_CLIENT_EXTERNAL && pool->slots && pool->count;
}

/* Whether the client may get itself as endpoint: its own hook turns such a packet around
 * (hairpin.h). A client of another node would get a packet from its own address.
 */
static __always_inline bool pc_may_be_itself(const struct pc_flow *flow)
{
	return flow->client == PC_CLIENT_POD || flow->client == PC_CLIENT_NODE;
}

/* Whether the client may get the endpoint. */
static __always_inline bool pc_is_for_client(const struct pc_flow *flow,
					     const struct pc_backend *backend)
{
	return backend &&
	       (pc_may_be_itself(flow) || !pc_addr_eq(&backend->addr, &flow->tuple.saddr));
}

/* By the Maglev table, or at random; if the client may not use that endpoint, the next one. With
 * session affinity a client has one place in the table, not one per port.
 */
static __always_inline const struct pc_backend *
pc_service_choose(const struct pc_flow *flow, const struct pc_frontend *frontend,
		  const struct pc_pool *pool, __u32 state)
{
	const struct pc_backend *backend = 0;
	__u32 n;

	if (pool->slots)
		n = pc_maglev_nth(&flow->tuple, pool, !frontend->affinity, state);
	else
		n = bpf_get_prandom_u32() % pool->count;
	if (n >= pool->count)
		n = 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_PICKS; i++) {
		backend = pc_choice(pool, n, state);
		if (pc_is_for_client(flow, backend))
			break;
		n = n + 1 < pool->count ? n + 1 : 0;
	}
	return backend;
}

/* The client's previous endpoint, if the Service has session affinity. */
static __always_inline const struct pc_backend *
pc_service_backend(const struct pc_flow *flow, const struct pc_frontend *frontend,
		   const struct pc_pool *pool, __u32 state)
{
	const struct pc_backend *backend = 0;

	if (frontend->affinity)
		backend = pc_affine(flow, frontend, pool, state);
	if (!pc_is_for_client(flow, backend))
		backend = pc_service_choose(flow, frontend, pool, state);
	return backend;
}

/* A pod's spoofed packet is detected later, and must not be remembered. */
static __always_inline bool pc_is_remembered(struct pc_flow *flow)
{
	if (flow->client != PC_CLIENT_POD)
		return true;
	pc_endpoint_at(flow->tuple.family, &flow->tuple.saddr, &flow->src);
	return flow->src.ifindex == flow->device;
}

/* Makes the tuple that of client and endpoint; flow->nat keeps the previous values. */
static __always_inline void
pc_tuple_translate(struct pc_flow *flow, const struct pc_backend *backend, __u32 id, __be16 port)
{
	flow->nat.daddr = flow->tuple.daddr;
	flow->nat.dport = flow->tuple.dport;
	flow->nat.sport = flow->tuple.sport;
	flow->nat.backend = id;
	flow->tuple.daddr = backend->addr;
	flow->tuple.dport = backend->port;
	flow->tuple.sport = port;
}

/* Whether a live connection has the tuple, or any that the endpoint has opened. If not,
 * flow->has_established_entry describes the tuple's entry.
 */
static __always_inline bool pc_service_is_taken(struct pc_flow *flow)
{
	struct pc_ct_at at = pc_ct_get(&flow->tuple, true);

	flow->has_established_entry = at.is_established;
	if (!at.ct || at.ct->expires <= flow->now)
		return false;
	if (at.ct->back != at.back && pc_has_opening(flow->tuple.proto))
		return true;
	return !(at.ct->state & PC_CT_DENIED) && !pc_ct_is_over(at.ct);
}

/* The client's own port, or another one if the tuple is taken: the client may use the same port for
 * the endpoint itself, or for another address of the Service. False when no tried port is free. A
 * separate function, for its own stack frame.
 */
__noinline int pc_service_port(struct pc_flow *flow)
{
	if (!flow)
		return false;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_PICKS; i++) {
		if (!pc_service_is_taken(flow))
			return true;
		if (flow->tuple.proto == IPPROTO_SCTP)
			return false; /* its checksum covers the port */
		flow->tuple.sport = bpf_htons(0x8000 | bpf_get_prandom_u32());
	}
	return false;
}

/* Whether a client without an endpoint gets an answer, as with kube-proxy. It gets none if a
 * traffic policy excludes endpoints of other nodes, as a load balancer may still send it there.
 */
static __always_inline bool pc_service_rejects(const struct pc_frontend *frontend, __u8 client)
{
	return !frontend->count && !(frontend->flags & PC_FRONTEND_OTHER_NODES) &&
	       client != PC_CLIENT_FORWARDED;
}

static __always_inline int pc_service_picked(struct pc_flow *flow, __u32 state)
{
	const struct pc_frontend *frontend;
	const struct pc_backend *backend;
	struct pc_pool pool;
	bool is_hairpin, has_port, opens;

	frontend = pc_frontend_of(&flow->tuple, state);
	if (!frontend && pc_node_port(flow, state))
		frontend = pc_frontend_of(&flow->tuple, state);
	if (!frontend)
		return PC_PASS;
	pool = pc_pool_of(frontend, flow->client);
	opens = pc_service_opens(flow);
	if (!opens && !pc_service_goes_on(flow, &pool))
		return PC_DROP_BACKEND_GONE;
	if (frontend->ranges && !pc_is_in_range(&flow->tuple.saddr, frontend->ranges, state))
		return PC_DROP_SOURCE_RANGE;
	if (!pool.count)
		return pc_service_rejects(frontend, flow->client) ? PC_STEP_REJECT
								  : PC_DROP_NO_BACKEND;
	backend = pc_service_backend(flow, frontend, &pool, state);
	if (!backend || !pc_backend_is_at(backend, &flow->tuple))
		return PC_DROP_NO_BACKEND;
	if (!opens && !backend->node)
		return PC_DROP_BACKEND_GONE;
	if (opens && frontend->affinity && pc_is_remembered(flow))
		pc_affine_note(flow, frontend, backend);
	if (pc_is_at_itself(flow, backend))
		return PC_PASS; /* the endpoint has the Service's address: no translation */
	pc_tuple_translate(flow, backend, backend->id, flow->tuple.sport);
	flow->has_established_pre_nat = flow->has_established_entry;
	is_hairpin = pc_addr_eq(&backend->addr, &flow->tuple.saddr);
	if (is_hairpin)
		pc_hairpin_address(&flow->tuple.saddr, flow->tuple.family);
	has_port = pc_service_port(flow);
	if (is_hairpin)
		flow->tuple.saddr = flow->tuple.daddr;
	if (!has_port)
		return PC_DROP_NAT_TAKEN;
	return is_hairpin ? PC_STEP_HAIRPIN : PC_PASS;
}

/* For a packet without a connection. Leaves flow->nat.backend 0 if the packet goes to no Service;
 * otherwise makes the tuple that of client and endpoint. A separate function, so that the verifier
 * checks it once.
 */
__noinline int pc_service_pick(struct pc_flow *flow, __u32 state)
{
	int reason;

	if (!flow)
		return PC_DROP_NO_BACKEND;
	if (flow->client == PC_CLIENT_POD)
		flow->action.node = 0;
	reason = pc_service_picked(flow, state);
	if (flow->action.node)
		pc_node_port_sent(flow);
	return reason;
}
