/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* xdp_known.h - packets that tc would only forward to another node or to a client.
 * Gives pc_xdp_known(), pc_xdp_route().
 *
 * XDP writes nothing to a connection. A packet that must write (a state,
 * a time, another table) goes to tc. That is at least one each second:
 * by those the kernel keeps its neighbours, and the host's routes and
 * filters take effect. Why: docs/decisions/0035-xdp-at-uplinks.md
 */
#pragma once
#include "ct.h"
#include "generation.h"
#include "return_path.h"
#include "snat_map.h"
#include "service_map.h"
#include "xdp_map.h"

#define PC_XDP_IPV4 2 /* AF_INET, AF_INET6 of <sys/socket.h>, which is not for BPF */
#define PC_XDP_IPV6 10

#define PC_XDP_LOOPBACK 1 /* ifindex of lo, for FIB lookups as for the node's own packets */

/* Flags and states of packets and connections that open or end. Such packets go to tc. */
#define PC_XDP_FLAGS (PC_TCP_FIN | PC_TCP_SYN | PC_TCP_RST | PC_TCP_ACK)
#define PC_XDP_OVER  (PC_CT_RESET | PC_CT_FINS | PC_CT_DENIED)

/* Whether tc would leave the entry unchanged, so that a lookup suffices. */
static __always_inline bool pc_xdp_needs_nothing(const struct pc_flow *flow,
						 const struct pc_ct_match *match)
{
	const struct pc_ct *ct = match->at.ct;
	__u64 expires = flow->now + pc_ct_idle(flow, ct->state);

	if (expires > ct->expires + flow->second || expires < ct->expires)
		return false;
	return match->at.is_established || !pc_ct_is_settled(ct, flow, match->is_reply) ||
	       ct->state & PC_CT_TRIED;
}

/* Whether the packet belongs to a connection with another node, in that direction; sets
 * flow->action.node. Under host policy only tc sees all packets that the policy may concern.
 */
static __always_inline bool pc_xdp_known(struct pc_flow *flow, bool is_reply)
{
	__u32 state = pc_generation(flow);
	const struct pc_snat_conf *snat = state & PC_STATE_SNAT ? pc_snat_now() : 0;
	struct pc_ct_match match;
	const struct pc_backend *backend;
	struct pc_ct *ct;

	if (!(state & PC_STATE_SERVICES) || state & PC_STATE_HOSTS ||
	    (snat && pc_snat_is_port(snat, flow->tuple.dport)))
		return false;
	if (flow->tuple.proto == IPPROTO_TCP &&
	    (flow->packet.tcp_flags & PC_XDP_FLAGS) != PC_TCP_ACK)
		return false;
	match = pc_ct_find(flow);
	ct = match.at.ct;
	if (!ct || match.is_reply != is_reply || !match.is_fresh ||
	    (ct->state & (PC_CT_PRE_NAT | PC_CT_OTHER_NODE)) !=
		(PC_CT_PRE_NAT | PC_CT_OTHER_NODE) ||
	    ct->state & PC_XDP_OVER || ct->src.ifindex)
		return false;
	if (!(ct->state & PC_CT_REPLIED) && (is_reply || flow->tuple.proto == IPPROTO_TCP))
		return false;
	backend = pc_backend_of(ct->src.nat.backend);
	if (!backend || backend->state & PC_BACKEND_NO_NEW || !pc_xdp_needs_nothing(flow, &match))
		return false;
	flow->action.node = pc_ct_node(ct);
	flow->may_link = pc_is_dsr(backend) && ct->out != PC_OUT_NO_LINK;
	return true;
}

/* The route to the address for a frame of that many bytes, less its Ethernet header. `from` NULL: a
 * packet of the node itself, whose source the route selects. The kernel must know the neighbour:
 * packets that tc sends resolve it.
 */
static __always_inline bool pc_xdp_route(struct xdp_md *ctx, struct bpf_fib_lookup *fib,
					 __u8 family, const struct pc_addr6 *from,
					 const struct pc_addr6 *to, __u32 length)
{
	fib->ifindex = from ? ctx->ingress_ifindex : PC_XDP_LOOPBACK;
	fib->tot_len = length;
	if (family == PC_IPV4) {
		fib->family = PC_XDP_IPV4;
		fib->ipv4_src = from ? from->word[0] : 0;
		fib->ipv4_dst = to->word[0];
	} else {
		fib->family = PC_XDP_IPV6;
		if (from)
			__builtin_memcpy(fib->ipv6_src, from, sizeof(fib->ipv6_src));
		__builtin_memcpy(fib->ipv6_dst, to, sizeof(fib->ipv6_dst));
	}
	return bpf_fib_lookup(ctx, fib, sizeof(*fib), 0) == BPF_FIB_LKUP_RET_SUCCESS;
}

/* The program's return value for a frame that leaves by the device. pc_xdp_by() NULL: it cannot.
 */
static __always_inline const struct pc_xdp_uplink *
pc_xdp_by(struct xdp_md *ctx, const struct pc_xdp_uplink *here, __u32 device)
{
	const struct pc_xdp_uplink *there;

	if (device == ctx->ingress_ifindex)
		return here;
	there = pc_xdp_at(device);
	return there && there->is_generic == here->is_generic ? there : 0;
}

static __always_inline int pc_xdp_send(struct xdp_md *ctx, __u32 device)
{
	return device == ctx->ingress_ifindex ? XDP_TX : bpf_redirect(device, 0);
}
