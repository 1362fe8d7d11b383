/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* xdp_vxlan.h - the headers before a packet that one node hands to another, as the VXLAN device
 * makes them (RFC 7348), and what changes in the packet itself.
 * Gives struct pc_vxlan, pc_xdp_sender_port(), pc_xdp_outer_ecn(),
 * pc_xdp_take_hop(), pc_xdp_outer_sum().
 */
#pragma once
#include "xdp_parse.h"

#define PC_VXLAN_PORT      8477       /* PORT of runtime/devices/tunnel.py */
#define PC_VXLAN_NETWORK   0x08000000 /* the flag "there is a number of a network" */
#define PC_XDP_FIRST_PORT  0x8000     /* senders' ports, below those that pods leave by */
#define PC_XDP_PORTS_SHIFT 18         /* as many as 14 bits tell apart */
#define PC_XDP_ECN         3
#define PC_XDP_ECT0        2

struct pc_vxlan {
	__be32 flags, network; /* the number is in the upper 24 bits */
};

/* Bytes of the headers up to the frame that is inside: an even number, for sums. */
#define PC_OUTER4    (ETH_HLEN + sizeof(struct iphdr) + PC_OUTER_UDP)
#define PC_OUTER6    (ETH_HLEN + sizeof(struct ipv6hdr) + PC_OUTER_UDP)
#define PC_OUTER_UDP (sizeof(struct udphdr) + sizeof(struct pc_vxlan))

/* What is inside goes out, but for a mark of congestion, which stays inside (RFC 6040). */
static __always_inline __u8 pc_xdp_outer_ecn(__u8 traffic)
{
	__u8 ecn = traffic & PC_XDP_ECN;

	return ecn == PC_XDP_ECN ? PC_XDP_ECT0 : ecn;
}

/* A number from the flow, so that routers send all of it one way. */
static __always_inline __be16 pc_xdp_sender_port(const struct pc_tuple *t)
{
	__u32 mix = (__u32)t->sport << 16 | t->dport;

#pragma unroll
	for (int i = 0; i < 4; i++)
		mix = (mix ^ t->saddr.word[i] ^ t->daddr.word[i] << 7) * 0x9e3779b1;
	return bpf_htons(PC_XDP_FIRST_PORT | mix >> PC_XDP_PORTS_SHIFT);
}

/* Each node on the way counts as a router; some hop is left. False: the header is not there, which
 * the verifier wants to be asked.
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

/* Of the outer UDP header and all behind it. What the inner transport checksum covers need not be
 * read: with its pseudo header it sums up to nothing, unless it is wrong, and then this is, too.
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
