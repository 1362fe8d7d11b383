/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* tunnel.h - forwards an external client's packet to another node, or receives one from there.
 * Gives pc_into_tunnel() and pc_tunnel_sender(). Packets go in VXLAN: encapsulated here
 * (tunnel_wrap.h), or by a VXLAN device that takes the remote end from each packet. The VNI tells
 * the direction: a client's packet goes to the endpoint's node, and a reply back to the node that
 * the client came to.
 */
#pragma once
#include "hop_limit.h"
#include "nat.h"
#include "external_map.h"
#include "tunnel_count.h"
#include "tunnel_port.h"
#include "tunnel_wrap.h"
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stddef.h>

#define PC_IP4_WHOLE       0x4000 /* the flag DF, "don't fragment" */
#define PC_IP4_FRAGMENT_AT (ETH_HLEN + offsetof(struct iphdr, frag_off))
#define PC_IP4_TTL_AT      (ETH_HLEN + offsetof(struct iphdr, ttl))

/* The size that every kernel accepts: later kernels appended fields. */
#define PC_TUNNEL_KEY offsetof(struct bpf_tunnel_key, tunnel_label)

/* Each node on the path counts as a router. */
static __always_inline enum drop_reason pc_take_hop(struct __sk_buff *skb,
						    const struct pc_flow *flow)
{
	__be16 was = bpf_htons(flow->packet.hop_limit << 8 | flow->tuple.proto),
	       is = was - bpf_htons(0x0100);
	__u8 left = flow->packet.hop_limit - 1;

	if (flow->packet.hop_limit <= 1)
		return PC_DROP_HOP_LIMIT;
	if (flow->tuple.family == PC_IPV6)
		return pc_take_hop6(skb, flow) ? PC_PASS : PC_DROP_MALFORMED;
	if (bpf_l3_csum_replace(skb, PC_IP4_CHECK_AT, was, is, sizeof(is)) ||
	    bpf_skb_store_bytes(skb, PC_IP4_TTL_AT, &left, 1, 0))
		return PC_DROP_MALFORMED;
	return PC_PASS;
}

/* Sets flow->action.mtu if the packet does not fit the tunnel, and its
 * sender wants to be told; otherwise the outer packet is fragmented.
 * Later fragments of a datagram are as large as its first.
 */
static __always_inline bool pc_is_too_big(struct __sk_buff *skb, struct pc_flow *flow, __u32 tunnel)
{
	__u32 mtu = 0;
	__be16 word;
	long fits = bpf_check_mtu(skb, tunnel, &mtu, 0, BPF_MTU_CHK_SEGS);

	if (fits <= BPF_MTU_CHK_RET_SUCCESS || flow->packet.fragment == PC_FRAG_LATER)
		return false;
	if (flow->tuple.family == PC_IPV4 &&
	    (bpf_skb_load_bytes(skb, PC_IP4_FRAGMENT_AT, &word, sizeof(word)) ||
	     !(word & bpf_htons(PC_IP4_WHOLE))))
		return false;
	flow->action.mtu = mtu;
	return true;
}

/* Sets forward_to for a packet to flow->action.node. */
__noinline int pc_into_tunnel(struct __sk_buff *skb, struct pc_flow *flow, __u32 network)
{
	struct bpf_tunnel_key key = {.tunnel_id = network, .tunnel_ttl = PC_OUTER_HOPS};
	const struct pc_external *external = pc_external_now();
	const struct pc_vtep *node;
	enum drop_reason reason;
	__u64 flags;

	if (!flow || !external || !external->tunnel)
		return PC_DROP_NO_NODE;
	node = pc_node_of(flow->action.node);
	if (!node)
		return PC_DROP_NO_NODE;
	if (network == PC_VNI_REQUEST) { /* of a reply to_uplink has checked the size */
		if (pc_is_too_big(skb, flow, external->tunnel))
			return PC_STEP_TELL_SIZE;
		reason = pc_take_hop(skb, flow);
		if (reason)
			return reason;
	}
	reason = pc_wrap(skb, flow, network);
	if (reason)
		return reason;
	pc_tunnel_counted(flow->action.forward_to ? PC_TUNNEL_SENT : PC_TUNNEL_SENT_BY_DEVICE);
	if (flow->action.forward_to)
		return PC_PASS;
	if (node->vtep_family == PC_IPV4) {
		key.remote_ipv4 = bpf_ntohl(node->vtep.word[0]);
		flags = BPF_F_ZERO_CSUM_TX;
	} else {
		__builtin_memcpy(key.remote_ipv6, &node->vtep, sizeof(key.remote_ipv6));
		flags = BPF_F_TUNINFO_IPV6;
		skb->mark = PC_TUNNEL_MARK;
	}
	if (bpf_skb_set_tunnel_key(skb, &key, PC_TUNNEL_KEY, flags))
		return PC_DROP_NO_NODE;
	flow->action.forward_to = external->tunnel;
	return PC_PASS;
}

/* The sender of a packet whose outer headers the uplink's hook has removed, or 0. At the VXLAN
 * device only a packet without a tunnel key can be such a packet.
 */
static __always_inline __u32 pc_unwrapped_sender(struct __sk_buff *skb, __u32 *network)
{
	__u32 mark = skb->mark;

	if ((mark & ~(PC_UNWRAPPED_REPLY | PC_FORWARDED_NODE)) != PC_UNWRAPPED_MARK)
		return 0;
	skb->mark = 0;
	pc_tunnel_counted(PC_TUNNEL_RECEIVED);
	*network = mark & PC_UNWRAPPED_REPLY ? PC_VNI_REPLY : PC_VNI_REQUEST;
	return mark & PC_FORWARDED_NODE;
}

/* The sender of a packet from the tunnel: the
 * number of another node's address, or 0.
 */
static __always_inline __u32 pc_tunnel_sender(struct __sk_buff *skb, __u32 *network)
{
	const struct pc_external *external = pc_external_now();
	struct bpf_tunnel_key key = {};
	struct pc_addr6 from = {};
	const __u32 *number;
	__u8 family = PC_IPV4;

	/* The hook of an uplink has called this one. */
	if (external && pc_is_uplink(external, skb->ifindex))
		return pc_unwrapped_sender(skb, network);
	if (!bpf_skb_get_tunnel_key(skb, &key, PC_TUNNEL_KEY, 0)) {
		from.word[0] = bpf_htonl(key.remote_ipv4);
	} else if (!bpf_skb_get_tunnel_key(skb, &key, PC_TUNNEL_KEY, BPF_F_TUNINFO_IPV6)) {
		__builtin_memcpy(&from, key.remote_ipv6, sizeof(from));
		family = PC_IPV6;
	} else {
		return pc_unwrapped_sender(skb, network);
	}
	pc_tunnel_counted(PC_TUNNEL_RECEIVED_BY_DEVICE);
	*network = key.tunnel_id;
	number = pc_node_at(family, &from);
	return number ? *number : 0;
}
