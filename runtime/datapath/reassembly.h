/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* reassembly.h - has the kernel reassemble a datagram whose first fragment does not arrive first.
 * Gives pc_first_reassembles() and pc_reassemble() to hooks, pc_external_reassembles() and
 * pc_external_seen() to uplinks, pc_come_back() to the hook of the reassembly device.
 *
 * A hook sends such fragments by a device into a network namespace. There the kernel reassembles
 * the datagram, drops overlaps, and fragments again what it sends back
 * (runtime/devices/reassembly.py). The returned fragments are in order. The hook of the device that
 * brought a fragment handles the returned one as a new packet. Why:
 * docs/decisions/0032-fragments-out-of-order.md
 */
#pragma once
#include "reassembly_map.h"
#include "frag_sender.h"
#include "generation.h"
#include "packet.h"
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stddef.h>

/* The MAC of the device's peer, which runtime/devices/reassembly.py sets. */
#define PC_REASM_MAC                                                                               \
	{                                                                                          \
		0x02, 0x70, 0x63, 0, 0, 2                                                          \
	}

/* Whether a later fragment of the datagram was sent to reassembly before this first one. */
static __always_inline bool pc_is_reassembled(const struct pc_flow *flow)
{
	const struct pc_frag *frag = pc_frag_of(flow);

	return frag && frag->reasm == PC_REASM_SENT_ON && frag->expires > flow->now;
}

/* For first fragments only, before any other step. True: this one has to follow the others to
 * reassembly. Its ends are then filled in, so that the hook can check its sender.
 */
__noinline int pc_first_reassembles(struct pc_flow *flow)
{
	if (!flow || !pc_is_reassembled(flow))
		return 0;
	pc_endpoints_of(flow);
	return 1;
}

/* The hook that sends a fragment to reassembly. */
enum pc_reasm_by { PC_REASM_BY_POD = 0, PC_REASM_BY_UPLINK, PC_REASM_TO_POD };

/* Records where the packet comes back to. False when there is no room. */
static __always_inline bool pc_reasm_remember(struct __sk_buff *skb, const struct pc_flow *flow,
					      const struct ethhdr *eth, __u32 by)
{
	struct pc_reasm_origin from = {.expires = flow->now + PC_REASM_IDLE * flow->second,
				       .device = skb->ifindex,
				       .is_egress = by == PC_REASM_TO_POD};
	struct pc_reasm_key key = pc_reasm_key_of(flow);

	__builtin_memcpy(from.dmac, eth->h_dest, sizeof(from.dmac));
	__builtin_memcpy(from.smac, eth->h_source, sizeof(from.smac));
	return !bpf_map_update_elem(&pc_reasm_origin, &key, &from, BPF_ANY);
}

/* At the end of a hook: for a fragment without its first one, which the hook would drop, or for the
 * first fragment of such a datagram. Its sender is checked. A returned fragment is not sent again.
 */
__noinline int pc_reassemble(struct __sk_buff *skb, struct pc_flow *flow, __u32 by)
{
	const __u8 other_side[PC_MAC_LEN] = PC_REASM_MAC;
	const struct pc_reasm_device *to = pc_reasm_now();
	const struct pc_frag *frag;
	struct ethhdr eth;

	if (!flow || !to)
		return pc_tc_action(PC_DROP_FRAGMENT);
	frag = pc_frag_of(flow);
	if (frag && frag->reasm >= PC_REASM_RETURNED && frag->expires > flow->now)
		return pc_tc_action(PC_DROP_FRAGMENT);
	if (pc_reasm_is_over(skb->ifindex, flow)) {
		pc_reasm_count(PC_REASM_OVER);
		/* It may be for the node itself, which can reassemble it; not under host policy.
		 */
		return pc_tc_action(by == PC_REASM_BY_UPLINK &&
					    flow->packet.fragment == PC_FRAG_LATER &&
					    !(pc_generation(flow) & PC_STATE_HOSTS)
					? PC_PASS
					: PC_DROP_FRAGMENT);
	}
	if (!pc_read(skb, 0, &eth, sizeof(eth)) || !pc_reasm_remember(skb, flow, &eth, by) ||
	    !pc_frag_put(flow, PC_REASM_SENT_ON, pc_frag_sender(flow)) ||
	    bpf_skb_store_bytes(skb, 0, other_side, sizeof(other_side), 0))
		return pc_tc_action(PC_DROP_FRAGMENT);
	pc_reasm_count(PC_REASM_SENT);
	return bpf_redirect(to->device, 0);
}

/* At an uplink: whether a later fragment without a first one that passed to a Service must be
 * reassembled, as that first one may still arrive.
 */
static __always_inline bool pc_external_reassembles(const struct pc_flow *flow)
{
	const struct pc_frag *frag;

	if (!pc_reasm_now())
		return false;
	frag = pc_frag_of(flow);
	return !frag || frag->reasm != PC_REASM_SEEN || frag->expires <= flow->now;
}

/* At an uplink: records a packet that passes unchanged. A packet that was not parsed has no time. A
 * packet that a node under host policy accepted already has its record.
 */
__noinline int pc_external_seen(struct pc_flow *flow)
{
	if (flow && flow->packet.fragment == PC_FRAG_FIRST && flow->now && pc_reasm_now() &&
	    !pc_is_reassembled(flow) && !pc_frag_first(flow))
		pc_frag_put(flow, PC_REASM_SEEN, PC_OWNER_EXTERNAL);
	return 0;
}

/* Restores the hop that the namespace took: the node counts as one router, not as two. */
static __always_inline bool pc_give_hop(struct __sk_buff *skb, const struct pc_flow *flow)
{
	__be16 was = bpf_htons(flow->packet.hop_limit << 8 | flow->tuple.proto),
	       is = was + bpf_htons(0x0100);
	__u8 more = flow->packet.hop_limit + 1;

	if (!more)
		return false;
	if (flow->tuple.family == PC_IPV6)
		return !bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, hop_limit),
					    &more, 1, 0);
	return !bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), was, is,
				    sizeof(is)) &&
	       !bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, ttl), &more, 1, 0);
}

/* A packet from the namespace; its flow is parsed and stamped. */
static __always_inline int pc_come_back(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_reasm_key key = pc_reasm_key_of(flow);
	const struct pc_reasm_origin *from = bpf_map_lookup_elem(&pc_reasm_origin, &key);

	/* The namespace has no process that sends. Its kernel sends group messages all the same. */
	if (!from && !flow->packet.fragment)
		return TC_ACT_SHOT;
	if (!from || from->expires <= flow->now)
		return pc_tc_action(PC_DROP_FRAGMENT);
	if (flow->packet.fragment == PC_FRAG_FIRST && !pc_frag_by(flow, PC_REASM_RETURNED))
		return pc_tc_action(PC_DROP_FRAGMENT);
	if (!pc_give_hop(skb, flow) ||
	    bpf_skb_store_bytes(skb, 0, from->dmac, sizeof(from->dmac) + sizeof(from->smac), 0))
		return pc_tc_action(PC_DROP_FRAGMENT);
	pc_reasm_count(PC_REASM_BACK);
	return bpf_redirect(from->device, from->is_egress ? 0 : BPF_F_INGRESS);
}
