/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* parse_l4.h - ports, flags and message types.
 * Needs t.family, t.proto, l4 and end. Fills the rest of the tuple, tcp_flags, icmp and opens.
 */
#pragma once
#include "drops.h"
#include "packet.h"
#include "service_key.h"

#define PC_TCP_FIN      0x01
#define PC_TCP_SYN      0x02
#define PC_TCP_RST      0x04
#define PC_TCP_ACK      0x10
#define PC_TCP_FLAGS_AT 13
#define PC_SCTP_INIT    1
#define PC_SCTP_INITACK 2
#define PC_SCTP_ABORT   6
#define PC_SCTP_CHUNK   12 /* offset of the first one's type */

/* The shortest valid header of the protocol. A first fragment must hold all of it, or a later
 * fragment could overwrite what the decision used.
 */
static __always_inline __u32 pc_l4_header(const struct pc_tuple *t)
{
	if (pc_is_icmp(t))
		return 8;
	switch (t->proto) {
	case IPPROTO_TCP:
		return 20;
	case IPPROTO_UDP:
		return 8;
	case IPPROTO_SCTP:
		return 16; /* with a chunk header, which every packet has */
	default:
		return 0;
	}
}

/* Offset of the transport protocol's checksum, from its header. */
static __always_inline __u32 pc_l4_checksum_at(const struct pc_tuple *t)
{
	switch (t->proto) {
	case IPPROTO_TCP:
		return 16;
	case IPPROTO_UDP:
		return 6;
	case IPPROTO_SCTP:
		return 8;
	default:
		return 2; /* ICMP and ICMPv6; callers use no other */
	}
}

/* What the first eight bytes of an ICMP message say about its connection. */
static __always_inline void pc_icmp_tuple(struct pc_tuple *t, __u16 icmp, __be16 id)
{
	__u8 echo = t->family == PC_IPV4 ? PC_ICMP_ECHO : PC_ICMP6_ECHO;
	__u8 echo_reply = t->family == PC_IPV4 ? PC_ICMP_ECHO_REPLY : PC_ICMP6_ECHO_REPLY;

	if (icmp == echo << 8) {
		t->sport = id;
	} else if (icmp == echo_reply << 8) {
		t->dport = id;
	} else {
		t->sport = bpf_htons(icmp);
		t->sub = PC_SUB_ICMP_OTHER;
	}
}

static __always_inline bool pc_is_echo_reply(const struct pc_flow *flow)
{
	__u8 type = flow->tuple.family == PC_IPV4 ? PC_ICMP_ECHO_REPLY : PC_ICMP6_ECHO_REPLY;

	return flow->packet.icmp == type << 8;
}

/* What a packet's first SCTP chunk does to an association, as the equivalent TCP flags. */
static __always_inline __u8 pc_sctp_flags(struct __sk_buff *skb, const struct pc_flow *flow)
{
	__u8 chunk = 0;

	if (bpf_skb_load_bytes(skb, flow->packet.l4 + PC_SCTP_CHUNK, &chunk, sizeof(chunk)))
		return 0;
	switch (chunk) {
	case PC_SCTP_INIT:
		return PC_TCP_SYN;
	case PC_SCTP_INITACK:
		return PC_TCP_SYN | PC_TCP_ACK;
	case PC_SCTP_ABORT:
		return PC_TCP_RST;
	default:
		return PC_TCP_ACK;
	}
}

static __always_inline enum drop_reason pc_parse_l4(struct __sk_buff *skb, struct pc_flow *flow)
{
	union {
		__u8 bytes[8];
		__be16 half[4];
	} head;
	__u32 need = pc_l4_header(&flow->tuple);
	__be16 flags; /* in the low byte */

	if (!pc_is_icmp(&flow->tuple) &&
	    (flow->tuple.proto == IPPROTO_ICMP || flow->tuple.proto == IPPROTO_ICMPV6))
		return PC_DROP_MALFORMED; /* the other family's ICMP (semantics A26) */
	if (!need)
		return PC_PASS;
	if (flow->packet.l4 + need > flow->packet.ip_end ||
	    !pc_read(skb, flow->packet.l4, &head, sizeof(head)))
		return PC_DROP_MALFORMED;
	if (pc_is_icmp(&flow->tuple)) {
		flow->packet.icmp = head.bytes[0] << 8 | head.bytes[1];
		pc_icmp_tuple(&flow->tuple, flow->packet.icmp, head.half[2]);
		flow->packet.is_opening = !pc_is_echo_reply(flow);
		return PC_PASS;
	}
	flow->tuple.sport = head.half[0];
	flow->tuple.dport = head.half[1];
	if (flow->tuple.proto == IPPROTO_SCTP) {
		flow->packet.tcp_flags = pc_sctp_flags(skb, flow);
	} else {
		if (flow->tuple.proto != IPPROTO_TCP)
			return PC_PASS;
		if (!pc_read(skb, flow->packet.l4 + PC_TCP_FLAGS_AT - 1, &flags, sizeof(flags)))
			return PC_DROP_MALFORMED;
		flow->packet.tcp_flags = bpf_ntohs(flags);
	}
	flow->packet.is_opening =
	    (flow->packet.tcp_flags & (PC_TCP_SYN | PC_TCP_ACK | PC_TCP_RST)) == PC_TCP_SYN;
	return PC_PASS;
}
