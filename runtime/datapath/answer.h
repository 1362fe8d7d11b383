/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* answer.h - turns a rejected packet into the answer: from its destination to its sender.
 * Gives pc_answer().
 */
#pragma once
#include "answer_message.h"

#define PC_ANSWER_HOPS   64
#define PC_ANSWER_TOS    0xc0 /* of ICMP errors: RFC 1812, 4.3.2.5 */
#define PC_DONT_FRAGMENT 0x4000

/* Resizes the frame to the length of the answer. No device has a checksum left to fill in: this
 * cuts off the data before the place of that checksum, and the kernel then forgets the place.
 */
static __always_inline bool pc_make_room(struct __sk_buff *skb, const struct pc_flow *flow,
					 const struct pc_answer_message *reply)
{
	__u32 size = flow->tuple.family == PC_IPV4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	__u32 cut = (flow->packet.l4 + 4U) & ~3U;

	size += ETH_HLEN + reply->head + reply->quoted;
	return !bpf_skb_change_tail(skb, size + cut, 0) &&
	       !bpf_skb_adjust_room(skb, -(__s32)cut, BPF_ADJ_ROOM_MAC, 0);
}

static __always_inline bool pc_put(struct __sk_buff *skb, __u32 at, const void *from, __u32 size)
{
	return !bpf_skb_store_bytes(skb, at, from, size,
				    BPF_F_RECOMPUTE_CSUM | BPF_F_INVALIDATE_HASH);
}

static __always_inline bool pc_turn_macs(struct __sk_buff *skb)
{
	__u8 macs[3 * PC_MAC_LEN];

	if (bpf_skb_load_bytes(skb, 0, macs + PC_MAC_LEN, 2 * PC_MAC_LEN))
		return false;
	__builtin_memcpy(macs, macs + 2 * PC_MAC_LEN, PC_MAC_LEN);
	return pc_put(skb, 0, macs, 2 * PC_MAC_LEN);
}

static __always_inline bool pc_put_ip4(struct __sk_buff *skb, const struct pc_answer_message *reply)
{
	struct iphdr ip = {
	    .version = 4,
	    .ihl = 5,
	    .tos = reply->quoted ? PC_ANSWER_TOS : 0,
	    .tot_len = bpf_htons(sizeof(ip) + reply->head + reply->quoted),
	    .frag_off = bpf_htons(PC_DONT_FRAGMENT),
	    .ttl = PC_ANSWER_HOPS,
	    .protocol = reply->proto,
	    .saddr = reply->from.word[0],
	    .daddr = reply->to.word[0],
	};

	ip.check = pc_folded(bpf_csum_diff(0, 0, (__be32 *)&ip, sizeof(ip), 0));
	return pc_put(skb, ETH_HLEN, &ip, sizeof(ip));
}

static __always_inline bool pc_put_ip6(struct __sk_buff *skb, const struct pc_answer_message *reply)
{
	struct ipv6hdr ip = {
	    .version = 6,
	    .payload_len = bpf_htons(reply->head + reply->quoted),
	    .nexthdr = reply->proto,
	    .hop_limit = PC_ANSWER_HOPS,
	};

	__builtin_memcpy(&ip.saddr, &reply->from, sizeof(ip.saddr));
	__builtin_memcpy(&ip.daddr, &reply->to, sizeof(ip.daddr));
	return pc_put(skb, ETH_HLEN, &ip, sizeof(ip));
}

static __always_inline bool pc_put_all(struct __sk_buff *skb, __u8 family,
				       const struct pc_answer_message *reply,
				       const struct pc_quote *quote)
{
	__u32 at = ETH_HLEN, size = reply->quoted;

	if (family == PC_IPV4) {
		if (!pc_put_ip4(skb, reply))
			return false;
		at += sizeof(struct iphdr);
	} else {
		if (!pc_put_ip6(skb, reply))
			return false;
		at += sizeof(struct ipv6hdr);
	}
	if (!size)
		return pc_put(skb, at, &reply->tcp, sizeof(reply->tcp));
	size = pc_quotable(size);
	return pc_put(skb, at, &reply->icmp, sizeof(reply->icmp)) &&
	       pc_put(skb, at + sizeof(reply->icmp), quote->bytes, size);
}

/* True: the frame is now the answer, and leaves in the opposite direction. False: the caller drops
 * it. `code` is the code of "unreachable"; a reset and "packet too big" do not use it.
 */
static __always_inline bool pc_answer(struct __sk_buff *skb, const struct pc_flow *flow, __u8 code)
{
	struct pc_answer_message reply = {
	    .from = flow->is_reply ? flow->tuple.saddr : flow->tuple.daddr,
	    .to = flow->is_reply ? flow->tuple.daddr : flow->tuple.saddr,
	};
	__u32 zero = 0;
	struct pc_quote *quote = bpf_map_lookup_elem(&pc_quotes, &zero);

	if (!quote)
		return false;
	if (flow->tuple.proto == IPPROTO_TCP && !flow->action.mtu
		? !pc_reset(skb, flow, &reply)
		: !pc_unreachable(skb, flow, code, quote, &reply))
		return false;
	return pc_make_room(skb, flow, &reply) && pc_turn_macs(skb) &&
	       pc_put_all(skb, flow->tuple.family, &reply, quote);
}
