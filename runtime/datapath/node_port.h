/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* node_port.h - node ports of other nodes. The tables hold a node port at this node's addresses
 * only, or they would grow with nodes times ports.
 * Gives pc_node_port(), pc_node_port_sent(), pc_is_at_itself(),
 * pc_is_node_still(), pc_ct_frontend_addr(), pc_client_knows().
 * Why: docs/decisions/0036-what-services-may-choose.md
 */
#pragma once
#include "ct_state.h"
#include "external_map.h"
#include "service_map.h"

_Static_assert(PC_NODES_MOST <= 1U << (32 - PC_CT_NODE_AT), "a number fits into the bits left");

/* After pc_node_port(): restores the other node's address, as in the client's pre-NAT entry. */
__noinline int pc_node_port_sent(struct pc_flow *flow)
{
	struct pc_addr6 *to;
	const struct pc_vtep *end;

	if (!flow)
		return 0;
	to = flow->nat.backend ? &flow->nat.daddr : &flow->tuple.daddr;
	end = pc_node_of(flow->action.node);
	if (end && pc_is_own_node(flow->tuple.family, to))
		*to = end->addr;
	return 0;
}

/* Whether the tuple, which matches no frontend, goes to the node port of another node. Then the
 * tuple gets this node's own address, and flow->action.node the number of the other address. Not
 * for an external client, whose packet is on its way to that node; and not for a pod where only
 * that node's endpoints may answer (externalTrafficPolicy Local).
 */
__noinline int pc_node_port(struct pc_flow *flow, __u32 state)
{
	const struct pc_external *external = pc_external_now();
	const struct pc_frontend *found;
	const struct pc_addr6 *own;
	const __u32 *number;

	if (!flow || !external || flow->client == PC_CLIENT_EXTERNAL)
		return false;
	own = flow->tuple.family == PC_IPV4 ? &external->own4 : &external->own6;
	number = pc_node_at(flow->tuple.family, &flow->tuple.daddr);
	if (!number || !*number || pc_addr_is_zero(own))
		return false;
	flow->action.node = *number;
	flow->tuple.daddr = *own;
	found = pc_frontend_of(&flow->tuple, state);
	if (found && found->flags & PC_FRONTEND_NODE_PORT &&
	    (flow->client == PC_CLIENT_FORWARDED || !(found->flags & PC_FRONTEND_LOCAL)))
		return true;
	pc_node_port_sent(flow);
	return false;
}

/* Whether the endpoint has exactly the address and port that the client sent to. */
__noinline int pc_is_at_itself(const struct pc_flow *flow, const struct pc_backend *backend)
{
	return flow && backend && backend->port == flow->tuple.dport &&
	       pc_addr_eq(&backend->addr, pc_frontend_addr(&flow->tuple.daddr, flow->tuple.family,
							   flow->action.node));
}

/* For a pod's pre-NAT entry: whether the node that the pod sent to still has the address, and so
 * its number. Sets flow->action.node.
 */
static __always_inline bool pc_is_node_still(struct pc_flow *flow, const struct pc_ct *pre_nat)
{
	const struct pc_vtep *end;

	flow->action.node = pre_nat->state >> PC_CT_NODE_AT;
	if (!flow->action.node)
		return true;
	end = pc_node_of(flow->action.node);
	return end && pc_addr_eq(&end->addr, &flow->tuple.daddr);
}

/* The address of a Service as the connection's client knows it. */
static __always_inline const struct pc_addr6 *
pc_ct_frontend_addr(const struct pc_backend *backend, __u8 family, const struct pc_ct *ct)
{
	return pc_frontend_addr(&backend->frontend, family, pc_ct_node(ct));
}

/* The same for a reply, which does not use flow->nat.daddr otherwise: the address goes there.
 * Sets flow->action.node. The verifier checks this function once.
 */
__noinline int pc_client_knows(struct pc_flow *flow, const struct pc_backend *backend,
			       const struct pc_ct *ct)
{
	if (!flow || !backend || !ct)
		return 0;
	flow->action.node = pc_ct_node(ct);
	flow->nat.daddr =
	    *pc_frontend_addr(&backend->frontend, flow->tuple.family, flow->action.node);
	return 0;
}
