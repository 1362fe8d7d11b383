/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* xdp_vxlan.h - the outer headers of a packet that one node forwards to another, as the VXLAN
 * device writes them (RFC 7348), and the changes in the packet itself.
 * Gives struct pc_vxlan, pc_xdp_sender_port(), pc_xdp_outer_ecn(), pc_xdp_take_hop(),
 * pc_xdp_outer_sum().
 */
#pragma once
#include "xdp_parse.h"

#define PC_VXLAN_PORT      8477       /* PORT of runtime/devices/tunnel.py */
#define PC_VXLAN_NETWORK   0x08000000 /* the flag "the VNI is valid" */
#define PC_XDP_FIRST_PORT  0x8000     /* source ports, below the SNAT ports */
#define PC_XDP_PORTS_SHIFT 18         /* leaves 14 bits of ports */
#define PC_XDP_ECN         3
#define PC_XDP_ECT0        2

struct pc_vxlan {
	__be32 flags, network; /* the VNI is in the upper 24 bits */
};

/* Bytes of the headers up to the inner frame: an even number, for checksums. */
#define PC_OUTER4    (ETH_HLEN + sizeof(struct iphdr) + PC_OUTER_UDP)
#define PC_OUTER6    (ETH_HLEN + sizeof(struct ipv6hdr) + PC_OUTER_UDP)
#define PC_OUTER_UDP (sizeof(struct udphdr) + sizeof(struct pc_vxlan))

/* Copies the inner traffic class; a CE mark stays in the inner packet only (RFC 6040). */
static __always_inline __u8 pc_xdp_outer_ecn(__u8 traffic)
{
	__u8 ecn = traffic & PC_XDP_ECN;

	return ecn == PC_XDP_ECN ? PC_XDP_ECT0 : ecn;
}

/* A hash of the flow, so that routers send all of its packets on one path. */
static __always_inline __be16 pc_xdp_sender_port(const struct pc_tuple *t)
{
	__u32 mix = (__u32)t->sport << 16 | t->dport;

#pragma unroll
	for (int i = 0; i < 4; i++)
		mix = (mix ^ t->saddr.word[i] ^ t->daddr.word[i] << 7) * 0x9e3779b1;
	return bpf_htons(PC_XDP_FIRST_PORT | mix >> PC_XDP_PORTS_SHIFT);
}

/* Each node on the path counts as a router; a hop is left. False: the header is not in the frame, a
 * check that the verifier requires.
 */
static __always_inline bool pc_xdp_take_hop(__u8 family, void *ip, const void *end)
{
	struct ipv6hdr *ip6 = ip;
	struct iphdr *ip4 = ip;
	__u32 sum;

	if (family == PC_IPV6) {
		if ((void *)(ip6 + 1) > end)
			return false;
		ip6->hop_limit--;
		return true;
	}
	if ((void *)(ip4 + 1) > end)
		return false;
	sum = ip4->check + bpf_htons(0x0100); /* one hop less (RFC 1141) */
	ip4->check = sum + (sum >= 0xffff);
	ip4->ttl--;
	return true;
}

static __always_inline __u64 pc_xdp_words(const __u16 *at, int count)
{
	__u64 sum = 0;

#pragma clang loop unroll(full)
	for (int i = 0; i < count; i++)
		sum += at[i];
	return sum;
}

/* The checksum over the outer UDP header and all behind it. The bytes under the inner checksum sum
 * to zero with their pseudo header, so they are not read. If that checksum is wrong, so is this.
 */
static __always_inline __u64 pc_xdp_outer_sum(const void *udp, const void *end, __u8 family,
					      __u32 pseudo)
{
	const int headers = PC_OUTER_UDP / 2;
	__u64 sum = (__u16)~pseudo;

	if (family == PC_IPV4)
		return udp + 2 * (headers + PC_XDP_IP4_WORDS) > end
			   ? 0
			   : sum + pc_xdp_words(udp, headers + PC_XDP_IP4_WORDS);
	return udp + 2 * (headers + PC_XDP_IP6_WORDS) > end
		   ? 0
		   : sum + pc_xdp_words(udp, headers + PC_XDP_IP6_WORDS);
}
