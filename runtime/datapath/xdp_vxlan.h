/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* xdp_vxlan.h - the outer headers of a packet that one node forwards to another, as the VXLAN
 * device writes them (RFC 7348), and the changes in the packet itself.
 * Gives pc_xdp_take_hop(), pc_xdp_outer_sum().
 */
#pragma once
#include "vxlan.h"
#include "xdp_parse.h"

/* Bytes of the headers up to the inner frame: an even number, for checksums. */
#define PC_OUTER4    (ETH_HLEN + sizeof(struct iphdr) + PC_OUTER_UDP)
#define PC_OUTER6    (ETH_HLEN + sizeof(struct ipv6hdr) + PC_OUTER_UDP)
#define PC_OUTER_UDP (sizeof(struct udphdr) + sizeof(struct pc_vxlan))

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
