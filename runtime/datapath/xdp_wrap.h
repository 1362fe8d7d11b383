/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* xdp_wrap.h - forwards a client's packet to another node, by the link (xdp_link.h) or as tunnel.h
 * and the VXLAN device do.
 * Gives pc_xdp_request().
 */
#pragma once
#include "ipsec.h"
#include "tunnel_cpu.h"
#include "xdp_known.h"
#include "xdp_link.h"
#include "xdp_vxlan.h"

/* The values of the outer headers, and those that they copy from the inner headers. */
struct pc_xdp_way {
	const struct pc_addr6 *from, *to;
	__u32 pseudo;
	__u8 family; /* of the outer addresses */
	__u8 traffic;
};

/* Makes room, and writes the outer Ethernet header. Returns the address behind it; or NULL, with
 * the program's return value in *then.
 */
static __always_inline void *pc_xdp_make_room(struct xdp_md *ctx, const struct pc_flow *flow,
					      const struct bpf_fib_lookup *fib, __u32 room,
					      __u16 ethertype, int *then)
{
	struct ethhdr *eth;
	void *end;

	*then = XDP_PASS;
	if (bpf_xdp_adjust_head(ctx, -(int)room))
		return 0;
	eth = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	*then = XDP_DROP; /* all of the frame was there before */
	if ((void *)eth + room + ETH_HLEN > end ||
	    !pc_xdp_take_hop(flow->tuple.family, (void *)eth + room + ETH_HLEN, end))
		return 0;
	*then = XDP_TX;
	__builtin_memcpy(eth->h_dest, fib->dmac, sizeof(eth->h_dest));
	__builtin_memcpy(eth->h_source, fib->smac, sizeof(eth->h_source));
	eth->h_proto = bpf_htons(ethertype);
	return eth + 1;
}

/* UDP without a checksum, and VXLAN. */
static __always_inline void pc_xdp_put_vxlan(struct udphdr *udp, const struct pc_flow *flow,
					     __u32 length)
{
	struct pc_vxlan *vxlan = (void *)(udp + 1);

	udp->source = pc_vxlan_sender_port(flow);
	udp->dest = bpf_htons(PC_TUNNEL_PORT);
	udp->len = bpf_htons(length);
	udp->check = 0;
	vxlan->flags = bpf_htonl(PC_VXLAN_NETWORK);
	vxlan->network = bpf_htonl(PC_VNI_REQUEST << 8);
}

static __always_inline int pc_xdp_wrap4(struct xdp_md *ctx, const struct pc_flow *flow,
					const struct pc_xdp_way *way,
					const struct bpf_fib_lookup *fib, __u32 length)
{
	struct iphdr *ip;
	int then;

	ip = pc_xdp_make_room(ctx, flow, fib, PC_OUTER4, ETH_P_IP, &then);
	if (!ip)
		return then;
	*ip = (struct iphdr){
	    .version = 4,
	    .ihl = sizeof(*ip) / 4,
	    .tos = pc_vxlan_ecn(way->traffic),
	    .tot_len = bpf_htons(length),
	    .id = bpf_htons(pc_tunnel_id(1)),
	    .ttl = PC_OUTER_HOPS,
	    .protocol = IPPROTO_UDP,
	    .saddr = way->from->word[0],
	    .daddr = way->to->word[0],
	};
	ip->check = ~pc_xdp_fold(pc_xdp_words((const __u16 *)ip, sizeof(*ip) / 2));
	pc_xdp_put_vxlan((void *)(ip + 1), flow, length - sizeof(*ip));
	return then;
}

/* UDP over IPv6 must have a checksum. */
static __always_inline int pc_xdp_wrap6(struct xdp_md *ctx, const struct pc_flow *flow,
					const struct pc_xdp_way *way,
					const struct bpf_fib_lookup *fib, __u32 length)
{
	struct pc_tuple ends = {.proto = IPPROTO_UDP, .saddr = *way->from, .daddr = *way->to};
	__u8 traffic = pc_vxlan_ecn(way->traffic);
	struct udphdr *udp;
	struct ipv6hdr *ip;
	__u16 check;
	int then;

	length -= sizeof(*ip);
	ip = pc_xdp_make_room(ctx, flow, fib, PC_OUTER6, ETH_P_IPV6, &then);
	if (!ip)
		return then;
	*ip = (struct ipv6hdr){
	    .version = 6,
	    .flow_lbl = {traffic << 4},
	    .payload_len = bpf_htons(length),
	    .nexthdr = IPPROTO_UDP,
	    .hop_limit = PC_OUTER_HOPS,
	};
	__builtin_memcpy(&ip->saddr, way->from, sizeof(ip->saddr));
	__builtin_memcpy(&ip->daddr, way->to, sizeof(ip->daddr));
	udp = (void *)(ip + 1);
	pc_xdp_put_vxlan(udp, flow, length);
	check = ~pc_xdp_fold(
	    pc_xdp_pseudo(&ends, length) +
	    pc_xdp_outer_sum(udp, (void *)(long)ctx->data_end, flow->tuple.family, way->pseudo));
	udp->check = check ? check : 0xffff;
	return then;
}

/* A client's packet for an endpoint of another node, which this node selected before. */
static __always_inline int pc_xdp_request(struct xdp_md *ctx, const struct pc_xdp_uplink *here,
					  struct pc_flow *flow, const struct pc_xdp_frame *frame)
{
	__u32 length = frame->length, mtu = 0;
	const struct pc_external *external = pc_external_now();
	struct pc_xdp_way way = {.pseudo = frame->pseudo, .traffic = frame->traffic};
	const struct pc_xdp_uplink *there;
	struct bpf_fib_lookup fib = {};
	const struct pc_vtep *node;
	int then;

	if (flow->packet.hop_limit <= 1 || !pc_xdp_known(flow, false) || !external ||
	    pc_xdp_has_ipsec(ctx))
		return XDP_PASS;
	then = pc_xdp_by_link(ctx, here, flow, external, frame->length);
	if (then != XDP_ABORTED)
		return then;
	if (!external->tunnel ||
	    bpf_check_mtu(ctx, external->tunnel, &mtu, 0, 0) != BPF_MTU_CHK_RET_SUCCESS)
		return XDP_PASS;
	node = pc_node_of(flow->action.node);
	if (!node || (node->vtep_family == PC_IPV6 && (frame->is_padded || !frame->is_summed)))
		return XDP_PASS;
	way.family = node->vtep_family;
	way.to = &node->vtep;
	length += (way.family == PC_IPV4 ? PC_OUTER4 : PC_OUTER6) - ETH_HLEN;
	fib.l4_protocol = IPPROTO_UDP;
	fib.dport = bpf_htons(PC_TUNNEL_PORT);
	fib.sport = pc_vxlan_sender_port(flow);
	if (!pc_xdp_route(ctx, &fib, way.family, 0, way.to, length))
		return XDP_PASS;
	there = pc_xdp_by(ctx, here, fib.ifindex);
	if (!there)
		return XDP_PASS;
	way.from = pc_xdp_own(there, way.family);
	if (pc_addr_is_zero(way.from))
		return XDP_PASS;
	then = way.family == PC_IPV4 ? pc_xdp_wrap4(ctx, flow, &way, &fib, length)
				     : pc_xdp_wrap6(ctx, flow, &way, &fib, length);
	if (then != XDP_TX)
		return then;
	pc_xdp_counted(here, false);
	return pc_xdp_send(ctx, fib.ifindex);
}
