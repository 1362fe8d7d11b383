/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* nat.h - writes another address or port into a packet, and updates the checksums over it.
 * Gives pc_nat_addr(), pc_nat_port(). They return false if the packet is not writable, or if a
 * checksum in its data is left to the device: the kernel's helpers would take the header's for it.
 *
 * A checksum that is left to the device has the sum of the pseudo header in its field: addresses
 * included, ports not. The kernel's helpers know that. They count an IPv6 address as one of IPv4,
 * whose change the header's checksum undoes; pc_nat_addr6() corrects the sum that a device has
 * computed (CHECKSUM_COMPLETE). SCTP's CRC covers ports, but not addresses: the loader rejects
 * Services that change the port.
 */
#pragma once
#include "parse_l4.h"
#include <linux/if_ether.h>

#define PC_IP4_CHECK_AT (ETH_HLEN + 10)
#define PC_IP4_SADDR_AT (ETH_HLEN + 12)
#define PC_IP4_DADDR_AT (ETH_HLEN + 16)
#define PC_IP6_SADDR_AT (ETH_HLEN + 8)
#define PC_IP6_DADDR_AT (ETH_HLEN + 24)

enum pc_nat_end { PC_NAT_SRC = 0, PC_NAT_DST = 1 };

/* UDP's checksum 0 means "none", and stays; a computed 0 is written as ffff. The sum of a pseudo
 * header may be 0, and still counts as a checksum.
 */
static __always_inline __u64 pc_nat_flags(const struct pc_flow *flow)
{
	if (flow->tuple.proto != IPPROTO_UDP)
		return 0;
	return BPF_F_MARK_MANGLED_0 |
	       (flow->packet.csum_partial == PC_PARTIAL_L4 ? BPF_F_MARK_ENFORCE : 0);
}

/* Whether the packet has the transport header, with a checksum over the addresses. */
static __always_inline bool pc_nat_is_summed(const struct pc_flow *flow)
{
	return flow->packet.fragment != PC_FRAG_LATER &&
	       (flow->tuple.proto == IPPROTO_TCP || flow->tuple.proto == IPPROTO_UDP ||
		flow->tuple.proto == IPPROTO_ICMPV6);
}

static __always_inline bool pc_nat_addr4(struct __sk_buff *skb, const struct pc_flow *flow,
					 enum pc_nat_end end, __be32 from, __be32 to)
{
	__u32 at = end == PC_NAT_SRC ? PC_IP4_SADDR_AT : PC_IP4_DADDR_AT;
	__u32 sum_at = flow->packet.l4 + pc_l4_checksum_at(&flow->tuple);

	if (pc_nat_is_summed(flow) &&
	    bpf_l4_csum_replace(skb, sum_at, from, to,
				BPF_F_PSEUDO_HDR | sizeof(to) | pc_nat_flags(flow)))
		return false;
	return !bpf_l3_csum_replace(skb, PC_IP4_CHECK_AT, from, to, sizeof(to)) &&
	       !bpf_skb_store_bytes(skb, at, &to, sizeof(to), 0);
}

static __always_inline bool pc_nat_addr6(struct __sk_buff *skb, const struct pc_flow *flow,
					 enum pc_nat_end end, const struct pc_addr6 *from,
					 const struct pc_addr6 *to)
{
	__u32 at = end == PC_NAT_SRC ? PC_IP6_SADDR_AT : PC_IP6_DADDR_AT;
	__u32 sum_at = flow->packet.l4 + pc_l4_checksum_at(&flow->tuple);
	__s64 sum = bpf_csum_diff((__be32 *)from, sizeof(*from), (__be32 *)to, sizeof(*to), 0);

	if (pc_nat_is_summed(flow) &&
	    bpf_l4_csum_replace(skb, sum_at, 0, sum, BPF_F_PSEUDO_HDR | pc_nat_flags(flow)))
		return false;
	if (flow->packet.is_summed)
		bpf_csum_update(skb, sum);
	return !bpf_skb_store_bytes(skb, at, to, sizeof(*to), 0);
}

static __always_inline bool pc_nat_addr(struct __sk_buff *skb, const struct pc_flow *flow,
					enum pc_nat_end end, const struct pc_addr6 *from,
					const struct pc_addr6 *to)
{
	if (flow->packet.csum_partial > PC_PARTIAL_L4)
		return false;
	if (flow->tuple.family == PC_IPV4)
		return pc_nat_addr4(skb, flow, end, from->word[0], to->word[0]);
	return pc_nat_addr6(skb, flow, end, from, to);
}

static __always_inline bool pc_nat_port(struct __sk_buff *skb, const struct pc_flow *flow,
					enum pc_nat_end end, __be16 from, __be16 to)
{
	__u32 at = flow->packet.l4 + (end == PC_NAT_SRC ? 0 : 2);

	if (from == to)
		return true;
	return pc_nat_is_summed(flow) &&
	       !bpf_l4_csum_replace(skb, flow->packet.l4 + pc_l4_checksum_at(&flow->tuple), from,
				    to, sizeof(to) | pc_nat_flags(flow)) &&
	       !bpf_skb_store_bytes(skb, at, &to, sizeof(to), 0);
}
