/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* vxlan.h - fields of the outer headers of a packet that one node forwards to another (RFC 7348).
 * Gives struct pc_vxlan, pc_vxlan_sender_port(), pc_vxlan_ecn(), pc_outer_ip4_sum().
 */
#pragma once
#include "flow.h"
#include "tunnel_port.h"
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#define PC_VXLAN_NETWORK     0x08000000 /* the flag "the VNI is valid" */
#define PC_VXLAN_FIRST_PORT  0x8000     /* source ports, below the SNAT ports */
#define PC_VXLAN_PORTS_SHIFT 18         /* leaves 14 bits of ports */
#define PC_ECN               3
#define PC_ECN_ECT0          2

struct pc_vxlan {
	__be32 flags, network; /* the VNI is in the upper 24 bits */
};

/* The outer ECN bits for an inner traffic class. A CE mark stays in the inner packet only (RFC
 * 6040).
 */
static __always_inline __u8 pc_vxlan_ecn(__u8 traffic)
{
	__u8 ecn = traffic & PC_ECN;

	return ecn == PC_ECN ? PC_ECN_ECT0 : ecn;
}

/* A hash of the flow, so that routers send all of its packets on one path. Later fragments have no
 * ports, so those of the first one do not count either.
 */
static __always_inline __be16 pc_vxlan_sender_port(const struct pc_flow *flow)
{
	const struct pc_tuple *t = &flow->tuple;
	__u32 mix = flow->packet.fragment ? t->proto : (__u32)t->sport << 16 | t->dport;

#pragma unroll
	for (int i = 0; i < 4; i++)
		mix = (mix ^ t->saddr.word[i] ^ t->daddr.word[i] << 7) * 0x9e3779b1;
	return bpf_htons(PC_VXLAN_FIRST_PORT | mix >> PC_VXLAN_PORTS_SHIFT);
}

/* The sum of an outer IPv4 header, which has no options: its checksum is right if this is 0xffff.
 */
static __always_inline __u16 pc_outer_ip4_sum(const void *ip)
{
	const __u16 *words = ip;
	__u32 sum = 0;

#pragma clang loop unroll(full)
	for (unsigned int i = 0; i < sizeof(struct iphdr) / sizeof(*words); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return sum + (sum >> 16);
}
