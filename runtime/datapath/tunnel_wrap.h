/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* tunnel_wrap.h - encapsulates a packet for another node as the VXLAN device does (RFC 7348), and
 * sends it by the uplink. So it takes neither that device nor a second route through the stack.
 * Gives pc_wrap(). Why: docs/decisions/0059-own-encapsulation.md
 */
#pragma once
#include "device_to.h"
#include "generation.h"
#include "ipsec.h"
#include "offload.h"
#include "tunnel_cpu.h"
#include "vxlan.h"

/* With offsets of the inner packet, as devices need them that finish its checksum or its segments.
 * Segments keep their size: bpf_check_mtu() has found that they fit.
 */
#define PC_WRAP_FLAGS                                                                              \
	(BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP |   \
	 BPF_F_ADJ_ROOM_ENCAP_L2_ETH | BPF_F_ADJ_ROOM_ENCAP_L2(ETH_HLEN))
#define PC_WRAP_LARGEST 0xffff /* of an IPv4 packet */

/* From the start of the frame to the inner IP header. */
struct pc_wrapped {
	struct ethhdr outer;
	struct iphdr ip;
	struct udphdr udp;
	struct pc_vxlan vxlan;
	struct ethhdr inner;
} __attribute__((packed));
#define PC_WRAP_ROOM (sizeof(struct pc_wrapped) - ETH_HLEN)

/* The node's address at an uplink, as the source; 0: none, or the device is no uplink. */
static __always_inline __be32 pc_wrap_source(const struct pc_external *external, __u32 device)
{
	for (int i = 0; i < PC_UPLINKS; i++)
		if (external->uplink[i] == device)
			return external->uplink_own4[i];
	return 0;
}

/* Whether there is an uplink for encapsulated packets. */
static __always_inline bool pc_wrap_is_on(const struct pc_external *external)
{
	__be32 any = 0;

	for (int i = 0; i < PC_UPLINKS; i++)
		any |= external->uplink_own4[i];
	return any;
}

/* The path to the node, as for a packet of this node itself: true if the neighbour is known, and
 * all that fits the tunnel's device fits the path. If loopback may not forward, the kernel says
 * only that: the lookup then runs again for the device that the packet came by.
 */
static __always_inline bool pc_wrap_route(struct __sk_buff *skb, struct bpf_fib_lookup *fib,
					  const struct pc_vtep *node, __u32 mtu)
{
	long found;

	fib->ifindex = PC_LOOPBACK;
	fib->family = PC_FIB_IPV4;
	fib->l4_protocol = IPPROTO_UDP;
	fib->dport = bpf_htons(PC_TUNNEL_PORT);
	fib->ipv4_dst = node->vtep.word[0];
	fib->tot_len = 1; /* asks for the route's MTU */
	found = bpf_fib_lookup(skb, fib, sizeof(*fib), 0);
	if (found == BPF_FIB_LKUP_RET_FWD_DISABLED) {
		fib->ifindex = skb->ifindex;
		fib->tot_len = 1;
		found = bpf_fib_lookup(skb, fib, sizeof(*fib), 0);
	}
	return found == BPF_FIB_LKUP_RET_SUCCESS && fib->mtu_result >= mtu + PC_WRAP_ROOM;
}

/* The traffic class of the IP header there. */
static __always_inline __u8 pc_traffic_at(struct __sk_buff *skb, __u32 at)
{
	__u8 first[2] = {};

	bpf_skb_load_bytes(skb, at, first, sizeof(first));
	return first[0] >> 4 == 4 ? first[1] : (__u8)(first[0] << 4 | first[1] >> 4);
}

/* How many packets it becomes, or more. A virtual machine's device does not say it. */
static __always_inline __u32 pc_wrap_packets(const struct __sk_buff *skb)
{
	__u32 segments = skb->gso_segs, size = skb->gso_size;

	if (!size)
		return 1;
	return segments ? segments : skb->len / size + 1;
}

/* The outer IP header. */
static __always_inline struct iphdr pc_wrap_ip(const struct __sk_buff *skb,
					       const struct pc_vtep *node, __be32 source,
					       __u32 length, __u8 traffic)
{
	struct iphdr ip = {
	    .version = 4,
	    .ihl = sizeof(ip) / 4,
	    .tos = pc_vxlan_ecn(traffic),
	    .tot_len = bpf_htons(length),
	    .id = bpf_htons(pc_tunnel_id(pc_wrap_packets(skb))),
	    .ttl = PC_OUTER_HOPS,
	    .protocol = IPPROTO_UDP,
	    .saddr = source,
	    .daddr = node->vtep.word[0],
	};

	ip.check = ~pc_outer_ip4_sum(&ip);
	return ip;
}

/* Whether no device has anything to finish. The packet then needs no offsets of the inner one, but
 * for the kernel's type of packet: no flag changes that without them.
 */
static __always_inline bool pc_wrap_is_plain(const struct __sk_buff *skb,
					     const struct pc_flow *flow)
{
	return flow->tuple.family == PC_IPV4 && !skb->gso_size &&
	       pc_left_of(skb).summed != PC_CHECKSUM_PARTIAL;
}

/* Writes the outer headers. A sum that the device has made (CHECKSUM_COMPLETE) counts all bytes but
 * the first header.
 */
static __always_inline bool pc_wrap_store(struct __sk_buff *skb, const struct pc_wrapped *head)
{
	return !bpf_skb_store_bytes(skb, 0, &head->outer, sizeof(head->outer), 0) &&
	       !bpf_skb_store_bytes(skb, sizeof(head->outer), &head->ip,
				    sizeof(*head) - sizeof(head->outer), BPF_F_RECOMPUTE_CSUM);
}

/* Sets forward_to if the packet goes so; otherwise it is unchanged, and goes by the VXLAN device.
 * That device also fragments, asks for neighbours, and computes checksums of UDP over IPv6. Its
 * packets are the node's own, which host policy decides.
 */
__noinline int pc_wrap(struct __sk_buff *skb, struct pc_flow *flow, __u32 network)
{
	const struct pc_external *external = pc_external_now();
	struct bpf_fib_lookup fib = {};
	struct bpf_redir_neigh next = {};
	struct pc_wrapped head = {};
	const struct pc_vtep *node;
	__u32 mtu = 0, length = skb->len + PC_WRAP_ROOM - ETH_HLEN;
	__be32 source;

	if (!flow || !external || !pc_wrap_is_on(external) || pc_node_has_policy() ||
	    skb->mark & external->marks || pc_has_ipsec(skb) || length > PC_WRAP_LARGEST ||
	    bpf_check_mtu(skb, external->tunnel, &mtu, 0, BPF_MTU_CHK_SEGS) !=
		BPF_MTU_CHK_RET_SUCCESS)
		return PC_PASS;
	node = pc_node_of(flow->action.node);
	if (!node || node->vtep_family != PC_IPV4)
		return PC_PASS;
	fib.sport = pc_vxlan_sender_port(flow);
	if (!pc_wrap_route(skb, &fib, node, mtu))
		return PC_PASS;
	source = pc_wrap_source(external, fib.ifindex);
	if (!source || bpf_skb_load_bytes(skb, 0, &head.inner, sizeof(head.inner)))
		return PC_PASS;
	head.outer.h_proto = bpf_htons(ETH_P_IP); /* the kernel writes the MACs */
	head.ip = pc_wrap_ip(skb, node, source, length, pc_traffic_at(skb, ETH_HLEN));
	head.udp.source = fib.sport;
	head.udp.dest = bpf_htons(PC_TUNNEL_PORT);
	head.udp.len = bpf_htons(length - sizeof(head.ip));
	head.vxlan.flags = bpf_htonl(PC_VXLAN_NETWORK);
	head.vxlan.network = bpf_htonl(network << 8);
	next.nh_family = fib.family; /* a gateway may have an IPv6 address */
	__builtin_memcpy(next.ipv6_nh, fib.ipv6_dst, sizeof(next.ipv6_nh));
	if (bpf_skb_adjust_room(skb, PC_WRAP_ROOM, BPF_ADJ_ROOM_MAC,
				pc_wrap_is_plain(skb, flow) ? 0 : PC_WRAP_FLAGS))
		return PC_PASS;
	if (!pc_wrap_store(skb, &head))
		return PC_DROP_MALFORMED;
	skb->mark = skb->ingress_ifindex ? PC_ROUTED_MARK : 0; /* as pc_was_routed() reads it */
	flow->action.forward_to = fib.ifindex | PC_REDIRECTED;
	bpf_redirect_neigh(fib.ifindex, &next, sizeof(next), 0);
	return PC_PASS;
}
