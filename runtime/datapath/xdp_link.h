/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* xdp_link.h - forwards a client's packet to a node on the same link, as link_forward.h does.
 * Gives pc_xdp_by_link().
 */
#pragma once
#include "xdp_known.h"
#include "xdp_vxlan.h"

/* Whether the next hop on the path to the node is the node itself. */
static __always_inline bool pc_xdp_is_next(const struct bpf_fib_lookup *fib,
					   const struct pc_vtep *node)
{
	struct pc_addr6 next = {};

	if (node->vtep_family == PC_IPV4)
		next.word[0] = fib->ipv4_dst;
	else
		__builtin_memcpy(&next, fib->ipv6_dst, sizeof(next));
	return pc_addr_eq(&next, &node->vtep);
}

/* The program's return value; XDP_ABORTED: the packet does not go by the link. */
static __always_inline int pc_xdp_by_link(struct xdp_md *ctx, const struct pc_xdp_uplink *here,
					  const struct pc_flow *flow,
					  const struct pc_external *external, __u32 length)
{
	const struct pc_vtep *node = pc_node_of(flow->action.node);
	struct bpf_fib_lookup fib = {};
	struct ethhdr *eth;
	const void *end;

	if (!external->by_link || !flow->may_link || !node ||
	    !pc_is_own_node(flow->tuple.family, &flow->tuple.daddr))
		return XDP_ABORTED;
	if (!pc_xdp_route(ctx, &fib, node->vtep_family, 0, &node->vtep, length - ETH_HLEN))
		return XDP_PASS; /* tc resolves the neighbour, or tells the size */
	if (!pc_xdp_is_next(&fib, node) ||
	    (external->by_link == PC_LINK_SAME_DEVICE && fib.ifindex != ctx->ingress_ifindex))
		return XDP_ABORTED;
	eth = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	if (pc_mac_eq(fib.dmac, eth->h_source))
		return XDP_ABORTED; /* it comes from there */
	if (!pc_xdp_by(ctx, here, fib.ifindex))
		return XDP_PASS;
	if (!pc_xdp_take_hop(flow->tuple.family, eth + 1, end))
		return XDP_PASS;
	__builtin_memcpy(eth->h_dest, fib.dmac, sizeof(eth->h_dest));
	__builtin_memcpy(eth->h_source, fib.smac, sizeof(eth->h_source));
	pc_xdp_counted(here, false);
	return pc_xdp_send(ctx, fib.ifindex);
}
