/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sender.h - whether a frame is from the sender that it names. A pod's identity is its veth.
 * Gives the checks of source address and MAC, and of the sender that an ARP message names.
 */
#pragma once
#include "ct.h"
#include "device.h"
#include "drops.h"
#include "endpoints.h"
#include <linux/if_ether.h>

#define PC_ARP_ETHERNET 1 /* <linux/if_arp.h> would pull in the C library */

/* For a packet from a pod, with its ends filled in. */
static __always_inline enum drop_reason pc_check_sender(const struct pc_flow *flow)
{
	if (flow->src.ifindex != flow->device)
		return PC_DROP_SPOOFED_IP;
	return pc_mac_eq(flow->packet.smac, flow->src.mac) ? PC_PASS : PC_DROP_SPOOFED_MAC;
}

/* The same for a known connection, from its entry alone. */
static __always_inline enum drop_reason pc_check_entry_sender(const struct pc_flow *flow,
							      const struct pc_ct_end *end)
{
	if (end->ifindex != flow->device)
		return PC_DROP_SPOOFED_IP;
	return pc_mac_eq(flow->packet.smac, end->mac) ? PC_PASS : PC_DROP_SPOOFED_MAC;
}

/* ARP over Ethernet for IPv4: the only kind there is here. */
struct pc_arp {
	__be16 hardware, protocol;
	__u8 hardware_len, protocol_len;
	__be16 operation;
	__u8 sender_mac[PC_MAC_LEN];
	__u8 sender_ip[4];
	__u8 target_mac[PC_MAC_LEN];
	__u8 target_ip[4];
};
_Static_assert(sizeof(struct pc_arp) == 28, "as on the wire");

/* A probe asks whether an address is free: its sender is 0.0.0.0. */
static __always_inline enum drop_reason pc_check_arp_sender(struct __sk_buff *skb,
							    const struct pc_flow *flow)
{
	__u32 device = flow->device;
	struct pc_endpoint *pod = bpf_map_lookup_elem(&pc_if, &device);
	struct pc_addr6 sender = {};
	struct pc_arp arp;

	if (!pod)
		return PC_DROP_NO_ENDPOINT;
	if (bpf_skb_load_bytes(skb, ETH_HLEN, &arp, sizeof(arp)) ||
	    arp.hardware != bpf_htons(PC_ARP_ETHERNET) || arp.protocol != bpf_htons(ETH_P_IP) ||
	    arp.hardware_len != PC_MAC_LEN || arp.protocol_len != 4)
		return PC_DROP_MALFORMED;
	if (!pc_mac_eq(flow->packet.smac, pod->mac))
		return PC_DROP_SPOOFED_MAC;
	if (!pc_mac_eq(arp.sender_mac, pod->mac))
		return PC_DROP_SPOOFED_ARP;
	__builtin_memcpy(&sender.word[0], arp.sender_ip, sizeof(arp.sender_ip));
	if (pc_addr_is_zero(&sender))
		return PC_PASS;
	return pc_has_address(device, PC_IPV4, &sender) ? PC_PASS : PC_DROP_SPOOFED_ARP;
}
