/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* xdp_parse.h - parses a frame in linear memory: TCP or UDP, behind headers without options.
 * Gives struct pc_xdp_frame, pc_xdp_parse(). Other frames go to tc (parse.h).
 */
#pragma once
#include "ct_state.h"
#include "parse_ip4.h"
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#define PC_XDP_IP4_WORDS ((ETH_HLEN + sizeof(struct iphdr)) / 2)
#define PC_XDP_IP6_WORDS ((ETH_HLEN + sizeof(struct ipv6hdr)) / 2)

/* What is known of a frame besides its flow. */
struct pc_xdp_frame {
	__u32 length;   /* of the frame; header lengths are compared with it, as the 6.1 verifier
			   adds no number without a known bound to an address */
	__u32 pseudo;   /* the pseudo header's sum, folded */
	__u8 traffic;   /* TOS, or traffic class */
	__u8 is_summed; /* it has a checksum; UDP over IPv4 may have none */
	__u8 is_padded; /* bytes follow the datagram */
	__u8 zero;
};

static __always_inline __u32 pc_xdp_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static __always_inline __u32 pc_xdp_pseudo(const struct pc_tuple *t, __u32 length)
{
	__u64 sum = bpf_htons(length) + bpf_htons(t->proto);

#pragma unroll
	for (int i = 0; i < 4; i++)
		sum += (__u64)t->saddr.word[i] + t->daddr.word[i];
	return pc_xdp_fold(sum);
}

/* Ports, flags and checksum. False if the checksum equals the pseudo header's sum: the sender may
 * have left it to the device. XDP cannot see which device, so no device would complete it.
 */
static __always_inline bool pc_xdp_parse_l4(const void *l4, const void *end, struct pc_flow *flow,
					    struct pc_xdp_frame *frame, __u32 length)
{
	const struct tcphdr *tcp = l4;
	const struct udphdr *udp = l4;
	__u16 check;

	if (flow->tuple.proto == IPPROTO_TCP) {
		if (l4 + sizeof(*tcp) > end || tcp->doff * 4U < sizeof(*tcp) ||
		    tcp->doff * 4U > length)
			return false;
		flow->tuple.sport = tcp->source;
		flow->tuple.dport = tcp->dest;
		flow->packet.tcp_flags = ((const __u8 *)l4)[PC_TCP_FLAGS_AT];
		check = tcp->check;
	} else {
		if (l4 + sizeof(*udp) > end || bpf_ntohs(udp->len) != length)
			return false;
		flow->tuple.sport = udp->source;
		flow->tuple.dport = udp->dest;
		check = udp->check;
	}
	frame->is_summed = flow->tuple.proto == IPPROTO_TCP || check;
	if (!frame->is_summed)
		return flow->tuple.family == PC_IPV4;
	frame->pseudo = pc_xdp_pseudo(&flow->tuple, length);
	return check != frame->pseudo;
}

static __always_inline bool pc_xdp_parse_ip4(const void *data, const void *end,
					     struct pc_flow *flow, struct pc_xdp_frame *frame)
{
	const struct iphdr *ip = data + ETH_HLEN;
	__u32 total;

	if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl * 4 != sizeof(*ip))
		return false;
	total = bpf_ntohs(ip->tot_len);
	if (total < sizeof(*ip) || ETH_HLEN + total > frame->length ||
	    ip->frag_off & bpf_htons(PC_IP4_MORE | PC_IP4_OFFSET))
		return false;
	flow->tuple.family = PC_IPV4;
	flow->tuple.proto = ip->protocol;
	flow->tuple.saddr.word[0] = ip->saddr;
	flow->tuple.daddr.word[0] = ip->daddr;
	flow->packet.hop_limit = ip->ttl;
	frame->traffic = ip->tos;
	frame->is_padded = ETH_HLEN + total != frame->length;
	if (flow->tuple.proto != IPPROTO_TCP && flow->tuple.proto != IPPROTO_UDP)
		return false;
	return pc_xdp_parse_l4(ip + 1, end, flow, frame, total - sizeof(*ip));
}

static __always_inline bool pc_xdp_parse_ip6(const void *data, const void *end,
					     struct pc_flow *flow, struct pc_xdp_frame *frame)
{
	const struct ipv6hdr *ip = data + ETH_HLEN;
	__u32 length;

	if ((void *)(ip + 1) > end || ip->version != 6)
		return false;
	length = bpf_ntohs(ip->payload_len);
	if (ETH_HLEN + sizeof(*ip) + length > frame->length)
		return false;
	flow->tuple.family = PC_IPV6;
	flow->tuple.proto = ip->nexthdr;
	__builtin_memcpy(&flow->tuple.saddr, &ip->saddr, sizeof(flow->tuple.saddr));
	__builtin_memcpy(&flow->tuple.daddr, &ip->daddr, sizeof(flow->tuple.daddr));
	flow->packet.hop_limit = ip->hop_limit;
	frame->traffic = ip->priority << 4 | ip->flow_lbl[0] >> 4;
	frame->is_padded = ETH_HLEN + sizeof(*ip) + length != frame->length;
	if (flow->tuple.proto != IPPROTO_TCP && flow->tuple.proto != IPPROTO_UDP)
		return false;
	return pc_xdp_parse_l4(ip + 1, end, flow, frame, length);
}

/* Parses the frame from `data` on, to this MAC. `flow` is zero. False: the frame goes to tc.
 */
static __always_inline bool pc_xdp_parse(const void *data, const void *end, const __u8 *mac,
					 struct pc_flow *flow, struct pc_xdp_frame *frame)
{
	const struct ethhdr *eth = data;

	if (data + sizeof(*eth) > end || (mac && !pc_mac_eq(eth->h_dest, mac)))
		return false;
	frame->length = end - data;
	flow->packet.ethertype = bpf_ntohs(eth->h_proto);
	if (flow->packet.ethertype == ETH_P_IP)
		return pc_xdp_parse_ip4(data, end, flow, frame);
	return flow->packet.ethertype == ETH_P_IPV6 && pc_xdp_parse_ip6(data, end, flow, frame);
}
