/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* tunnel_unwrap.h - removes the outer headers of a packet that another node forwarded. The packet
 * goes to the VXLAN device's hook (from_tunnel.h), and not through the IP stack to that device.
 * Gives pc_unwrap(), pc_go_on_from_tunnel(). Why: docs/decisions/0059-own-encapsulation.md
 */
#pragma once
#include "device_to.h"
#include "tunnel_cpu.h"
#include "tunnel_wrap.h"
#include <linux/if_packet.h>

/* 0 -> pc_from_tunnel. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_tunnel_slot SEC(".maps");

/* Whether the path back to the sender is by this device: the check of a strict reverse path filter.
 * Other packets are left to the node's own filter.
 */
static __always_inline bool pc_unwrap_is_back(struct __sk_buff *skb, const struct pc_flow *flow)
{
	struct bpf_fib_lookup fib = pc_fib_of(skb, flow, true);
	long found = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);

	return pc_fib_device(&fib, found) == skb->ifindex;
}

/* Whether the outer headers are as another node's hook or device writes them: without a checksum of
 * UDP, without bytes behind the packet, and with ECN bits that leave the inner ones as they are.
 */
static __always_inline bool pc_unwrap_is_ours(struct __sk_buff *skb, const struct pc_flow *flow,
					      const struct pc_wrapped *head)
{
	__u8 ecn = head->ip.tos & PC_ECN;

	return pc_outer_ip4_sum(&head->ip) == 0xffff && !head->udp.check &&
	       flow->packet.ip_end == skb->len &&
	       bpf_ntohs(head->udp.len) == skb->len - flow->packet.l4 &&
	       (!ecn || ecn == pc_vxlan_ecn(pc_traffic_at(skb, sizeof(*head))));
}

/* The number of the other node that sends the packet to this one over IPv4; 0: none does. */
static __always_inline __u32 pc_unwrap_sender(const struct pc_flow *flow)
{
	const __u32 *sender = pc_node_at(PC_IPV4, &flow->tuple.saddr);

	return flow->tuple.family == PC_IPV4 && sender &&
		       pc_is_own_node(PC_IPV4, &flow->tuple.daddr)
		   ? *sender
		   : 0;
}

/* The mark for the VXLAN device's hook; 0: the packet is not of the tunnel between nodes. */
static __always_inline __u32 pc_unwrap_mark(struct __sk_buff *skb, const struct pc_flow *flow,
					    struct pc_wrapped *head)
{
	__u32 sender = pc_unwrap_sender(flow);

	if (!sender || bpf_skb_load_bytes(skb, 0, head, sizeof(*head)) ||
	    !pc_unwrap_is_ours(skb, flow, head) || head->vxlan.flags != bpf_htonl(PC_VXLAN_NETWORK))
		return 0;
	if (head->vxlan.network == bpf_htonl(PC_VNI_REQUEST << 8))
		return PC_UNWRAPPED_MARK | sender;
	if (head->vxlan.network == bpf_htonl(PC_VNI_REPLY << 8))
		return PC_UNWRAPPED_MARK | PC_UNWRAPPED_REPLY | sender;
	return 0;
}

/* PC_STEP_TUNNEL if the outer headers were removed; otherwise the packet is unchanged. */
static __always_inline int pc_unwrap_now(struct __sk_buff *skb, struct pc_flow *flow,
					 const struct pc_external *external)
{
	struct pc_wrapped head;
	__u32 mark;

	if (skb->pkt_type != PACKET_HOST || flow->packet.fragment || skb->gso_size ||
	    pc_has_inner(skb) || flow->tuple.family != PC_IPV4 ||
	    flow->packet.l4 != ETH_HLEN + sizeof(struct iphdr))
		return PC_PASS;
	mark = pc_unwrap_mark(skb, flow, &head);
	if (!mark || !pc_wrap_source(external, skb->ifindex) || pc_has_ipsec(skb) ||
	    !pc_unwrap_is_back(skb, flow) ||
	    bpf_skb_adjust_room(skb, -(int)PC_WRAP_ROOM, BPF_ADJ_ROOM_MAC, 0))
		return PC_PASS;
	if (bpf_skb_store_bytes(skb, 0, &head.inner, sizeof(head.inner), 0))
		return PC_DROP_MALFORMED;
	skb->mark = mark;
	flow->packet.ethertype = bpf_ntohs(head.inner.h_proto);
	flow->action.forward_to = external->tunnel;
	return PC_STEP_TUNNEL;
}

/* PC_STEP_TUNNEL, or the packet goes through the IP stack to the VXLAN device. That path also
 * reassembles, applies congestion marks, and clears the offsets of the inner packet. A packet may
 * wait there. So for a moment later ones follow it, which keeps nearly all in order.
 */
__noinline int pc_unwrap(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_external *external = pc_external_now();
	int step;

	if (!flow || !external || !external->tunnel)
		return PC_PASS;
	if (!skb->gso_size && pc_left_one_now(flow))
		return PC_PASS;
	step = pc_unwrap_now(skb, flow, external);
	if (!step && pc_unwrap_sender(flow))
		pc_leaves_one(flow);
	return step;
}

/* The hook's return value for such a packet. The VXLAN device's hook is called at once; the device
 * itself gets the packet if the slot is empty. It also gets inner IPv6: the kernel still takes the
 * packet for IPv4, and only a device changes that.
 */
static __always_inline int pc_go_on_from_tunnel(struct __sk_buff *skb, const struct pc_flow *flow)
{
	__u32 device = flow->action.forward_to;

	if (flow->packet.ethertype == ETH_P_IP)
		bpf_tail_call(skb, &pc_tunnel_slot, 0);
	return bpf_redirect(device, BPF_F_INGRESS);
}
