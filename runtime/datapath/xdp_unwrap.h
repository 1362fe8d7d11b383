/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* xdp_unwrap.h - sends a reply that another node returns on to the client, as from_tunnel.h does.
 * Gives pc_xdp_is_tunnelled(), pc_xdp_reply().
 */
#pragma once
#include "ipsec.h"
#include "xdp_known.h"
#include "xdp_vxlan.h"

/* Whether the outer headers are those of the tunnel between nodes. */
static __always_inline bool pc_xdp_is_tunnelled(const struct pc_flow *outer)
{
	return outer->tuple.proto == IPPROTO_UDP &&
	       outer->tuple.dport == bpf_htons(PC_TUNNEL_PORT) &&
	       pc_is_own_node(outer->tuple.family, &outer->tuple.daddr);
}

/* From a node, by the device that leads to that node: the check of a strict reverse path filter. */
static __always_inline __u32 pc_xdp_sender(struct xdp_md *ctx, const struct pc_flow *outer)
{
	const __u32 *number = pc_node_at(outer->tuple.family, &outer->tuple.saddr);
	struct bpf_fib_lookup fib = {};

	if (!number || !*number ||
	    !pc_xdp_route(ctx, &fib, outer->tuple.family, 0, &outer->tuple.saddr, 0) ||
	    fib.ifindex != ctx->ingress_ifindex)
		return 0;
	return *number;
}

/* Whether the VNI is that of replies. The inner packet is `headers` behind the frame's start. */
static __always_inline bool pc_xdp_inside(const void *data, const void *end, __u32 headers,
					  struct pc_flow *flow, struct pc_xdp_frame *frame)
{
	const struct pc_vxlan *vxlan = data + headers - sizeof(*vxlan);

	if (data + headers > end || vxlan->flags != bpf_htonl(PC_VXLAN_NETWORK) ||
	    vxlan->network != bpf_htonl(PC_VNI_REPLY << 8))
		return false;
	return pc_xdp_parse(data + headers, end, 0, flow, frame);
}

/* The outer headers are already removed. */
static __always_inline int pc_xdp_to_client(struct xdp_md *ctx, const struct pc_flow *flow,
					    const struct bpf_fib_lookup *fib)
{
	struct ethhdr *eth = (void *)(long)ctx->data;
	const void *end = (void *)(long)ctx->data_end;

	if ((void *)(eth + 1) > end || !pc_xdp_take_hop(flow->tuple.family, eth + 1, end))
		return XDP_DROP; /* all of the frame was there before */
	__builtin_memcpy(eth->h_dest, fib->dmac, sizeof(eth->h_dest));
	__builtin_memcpy(eth->h_source, fib->smac, sizeof(eth->h_source));
	return pc_xdp_send(ctx, fib->ifindex);
}

/* The flow and the frame are the outer ones. */
static __always_inline int pc_xdp_reply(struct xdp_md *ctx, const struct pc_xdp_uplink *here,
					const struct pc_flow *outer,
					const struct pc_xdp_frame *external)
{
	const void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct pc_xdp_frame frame = {};
	struct bpf_fib_lookup fib = {};
	struct pc_flow flow = {};
	bool is_inside;
	__u32 headers, sender;

	if (external->is_padded || (external->traffic & PC_ECN) == PC_ECN)
		return XDP_PASS; /* congestion mark: the kernel applies it to the inner packet */
	if (outer->tuple.family == PC_IPV4) {
		headers = PC_OUTER4;
		is_inside = pc_xdp_inside(data, end, PC_OUTER4, &flow, &frame);
	} else {
		headers = PC_OUTER6;
		is_inside = pc_xdp_inside(data, end, PC_OUTER6, &flow, &frame);
	}
	if (!is_inside || flow.packet.hop_limit <= 1 || !pc_xdp_known(&flow, true) ||
	    pc_xdp_has_ipsec(ctx))
		return XDP_PASS;
	sender = pc_xdp_sender(ctx, outer);
	if (!sender || !pc_is_same_node(flow.action.node, sender))
		return XDP_PASS;
	fib.l4_protocol = flow.tuple.proto;
	fib.sport = flow.tuple.sport;
	fib.dport = flow.tuple.dport;
	if (!pc_xdp_route(ctx, &fib, flow.tuple.family, &flow.tuple.saddr, &flow.tuple.daddr,
			  frame.length - ETH_HLEN) ||
	    !pc_xdp_by(ctx, here, fib.ifindex) || bpf_xdp_adjust_head(ctx, headers))
		return XDP_PASS;
	pc_xdp_counted(here, true);
	return pc_xdp_to_client(ctx, &flow, &fib);
}
