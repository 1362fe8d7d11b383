/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* rewrite.h - translates and redirects a packet: all changes in one store.
 * Gives struct pc_rewrite, pc_can_rewrite(), pc_rewrite(). Step by step (nat.h, forward.h) this
 * would take three times as many helper calls.
 */
#pragma once
#include "forward.h"
#include "nat.h"

/* The new address of one end of the packet, and its ports. */
struct pc_rewrite {
	const struct pc_addr6 *from, *to;
	__be16 sport, dport;
	bool is_source; /* `from` is the source */
};

struct pc_ports {
	__be16 sport, dport;
};

/* The headers up to the ports. */
struct pc_heads4 {
	__u8 dmac[PC_MAC_LEN], smac[PC_MAC_LEN];
	__be16 ethertype;
	__u8 before_ttl[8];
	__u8 ttl;
	__u8 protocol;
	__u16 check;
	__be32 saddr, daddr;
	struct pc_ports ports;
} __attribute__((packed, aligned(2)));
_Static_assert(sizeof(struct pc_heads4) == 38, "as on the wire");

struct pc_heads6 {
	__u8 dmac[PC_MAC_LEN], smac[PC_MAC_LEN];
	__be16 ethertype;
	__u8 before_limit[7];
	__u8 hop_limit;
	struct pc_addr6 saddr, daddr;
	struct pc_ports ports;
} __attribute__((packed, aligned(2)));
_Static_assert(sizeof(struct pc_heads6) == 58, "as on the wire");

/* Only these protocols have ports, and a checksum over all changes. A checksum that the device
 * computed over the whole packet stays right only with the helpers.
 */
static __always_inline bool pc_can_rewrite(const struct pc_flow *flow)
{
	return (flow->tuple.proto == IPPROTO_TCP || flow->tuple.proto == IPPROTO_UDP) &&
	       !flow->packet.is_summed && flow->packet.csum_partial <= PC_PARTIAL_L4;
}

/* A difference of ones' complement sums (RFC 1624) over whole words; folded on use. */
static __always_inline __u64 pc_word_diff(__u32 from, __u32 to)
{
	return (__u64)(__u32)~from + to;
}

static __always_inline __u32 pc_fold32(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (sum & 0xffffffff) + (sum >> 32);
}

static __always_inline __u16 pc_fold16(__u64 sum)
{
	sum = pc_fold32(sum);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static __always_inline __u32 pc_ports_word(__be16 sport, __be16 dport)
{
	return sport | (__u32)dport << 16; /* in memory order on little endian */
}

/* Updates the transport checksum for changed addresses and ports; if it is left to the device, for
 * the addresses only.
 */
static __always_inline bool pc_rewrite_sum(struct __sk_buff *skb, const struct pc_flow *flow,
					   __u64 addresses, __u64 ports)
{
	__u64 sum = flow->packet.csum_partial == PC_PARTIAL_L4 ? addresses : addresses + ports;
	__u32 at = flow->packet.l4 + pc_l4_checksum_at(&flow->tuple);

	return !bpf_l4_csum_replace(skb, at, 0, pc_fold32(sum),
				    BPF_F_PSEUDO_HDR | pc_nat_flags(flow));
}

static __always_inline bool pc_rewrite4(struct __sk_buff *skb, const struct pc_flow *flow,
					const struct pc_rewrite *what, const struct pc_ct_end *hop)
{
	__u64 sum = pc_word_diff(what->from->word[0], what->to->word[0]);
	struct pc_heads4 heads;
	__u64 ports;

	if (!pc_read(skb, 0, &heads, sizeof(heads)))
		return false;
	ports = pc_word_diff(pc_ports_word(heads.ports.sport, heads.ports.dport),
			     pc_ports_word(what->sport, what->dport));
	if (!pc_rewrite_sum(skb, flow, sum, ports))
		return false;
	__builtin_memcpy(heads.dmac, hop->mac, sizeof(heads.dmac));
	__builtin_memcpy(heads.smac, hop->gateway, sizeof(heads.smac));
	heads.ttl--;
	sum += (__u16)~heads.check + (__u64)(__u16)~bpf_htons(0x0100);
	heads.check = ~pc_fold16(sum);
	if (what->is_source)
		heads.saddr = what->to->word[0];
	else
		heads.daddr = what->to->word[0];
	heads.ports = (struct pc_ports){what->sport, what->dport};
	return !bpf_skb_store_bytes(skb, 0, &heads, sizeof(heads), 0);
}

static __always_inline bool pc_rewrite6(struct __sk_buff *skb, const struct pc_flow *flow,
					const struct pc_rewrite *what, const struct pc_ct_end *hop)
{
	struct pc_heads6 heads;
	__u64 ports, sum = 0;

	if (!pc_read(skb, 0, &heads, sizeof(heads)))
		return false;
	for (int i = 0; i < 4; i++)
		sum += pc_word_diff(what->from->word[i], what->to->word[i]);
	ports = pc_word_diff(pc_ports_word(heads.ports.sport, heads.ports.dport),
			     pc_ports_word(what->sport, what->dport));
	if (!pc_rewrite_sum(skb, flow, sum, ports))
		return false;
	__builtin_memcpy(heads.dmac, hop->mac, sizeof(heads.dmac));
	__builtin_memcpy(heads.smac, hop->gateway, sizeof(heads.smac));
	heads.hop_limit--;
	if (what->is_source)
		heads.saddr = *what->to;
	else
		heads.daddr = *what->to;
	heads.ports = (struct pc_ports){what->sport, what->dport};
	return !bpf_skb_store_bytes(skb, 0, &heads, sizeof(heads), 0);
}

/* False: the packet could not be changed. Its checksum may be changed already, so the caller must
 * drop it. For packets that pc_may_forward() and pc_can_rewrite() accepted.
 */
static __always_inline bool pc_rewrite(struct __sk_buff *skb, struct pc_flow *flow,
				       const struct pc_rewrite *what, const struct pc_ct_end *hop)
{
	bool done = flow->tuple.family == PC_IPV4 ? pc_rewrite4(skb, flow, what, hop)
						  : pc_rewrite6(skb, flow, what, hop);

	if (!done)
		return false;
	skb->mark = 0;
	flow->action.forward_to = hop->ifindex;
	return true;
}
