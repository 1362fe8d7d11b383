/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* answer_message.h - builds the answer to a rejected packet, before any byte of the packet is
 * written. Gives pc_reset(): a reset (RFC 9293, 3.10.7.1); and pc_unreachable(): an ICMP error that
 * says "administratively prohibited" or "port unreachable" (RFC 1812, 5.2.7.1; RFC 4443, 3.1) and
 * quotes the packet.
 */
#pragma once
#include "related.h"
#include <linux/tcp.h>

#define PC_ICMP_PROHIBITED  13
#define PC_ICMP6_PROHIBITED 1
#define PC_ICMP_NO_PORT     3
#define PC_ICMP6_NO_PORT    4
#define PC_ICMP_TOO_BIG     4     /* RFC 1191, 4 */
#define PC_ICMP6_TOO_BIG    2     /* a type: RFC 4443, 3.2 */
#define PC_QUOTE4           548U  /* an error has 576 bytes: RFC 1812, 4.3.2.3 */
#define PC_QUOTE6           1232U /* it has 1280: RFC 4443, 2.4 */
#define PC_QUOTE_ROOM       2048U /* the next power of two */
#define PC_SUM_MOST         512U  /* the most that bpf_csum_diff() takes at once */

struct pc_quote {
	__u8 bytes[PC_QUOTE_ROOM + PC_SUM_MOST]; /* zeros follow the quote */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_quote);
} pc_quotes SEC(".maps");

/* One sum for both families: words that a family lacks are zero. */
struct pc_pseudo {
	struct pc_addr6 from, to;
	__be32 length, proto;
};

struct pc_icmp_head {
	__u8 type, code;
	__be16 check;
	__be32 about; /* the MTU, for "too big" */
};

/* The parts of the answer. */
struct pc_answer_message {
	struct pc_addr6 from, to;
	union {
		struct tcphdr tcp;
		struct pc_icmp_head icmp;
	};
	__u32 head;   /* bytes of the transport header */
	__u32 quoted; /* bytes of the quote in pc_quotes */
	__u8 proto;
};

static __always_inline __be16 pc_folded(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline __u32 pc_pseudo_sum(const struct pc_answer_message *reply)
{
	struct pc_pseudo pseudo = {
	    .from = reply->from,
	    .to = reply->to,
	    .length = bpf_htonl(reply->head + reply->quoted),
	    .proto = bpf_htonl(reply->proto),
	};

	return bpf_csum_diff(0, 0, (__be32 *)&pseudo, sizeof(pseudo), 0);
}

/* The whole segment must be present, so that the reset acknowledges only bytes that were sent. The
 * ports are the tuple's, as an endpoint's answer is translated by now. Resets are never answered;
 * nor are fragments, because the length of their segment is unknown.
 */
static __always_inline bool pc_reset(struct __sk_buff *skb, const struct pc_flow *flow,
				     struct pc_answer_message *reply)
{
	struct tcphdr *out = &reply->tcp, in;
	__u32 data;

	if (flow->packet.fragment || bpf_skb_load_bytes(skb, flow->packet.l4, &in, sizeof(in)) ||
	    in.rst)
		return false;
	data = flow->packet.l4 + in.doff * 4U;
	if (in.doff < 5 || data > flow->packet.ip_end)
		return false;
	out->source = flow->is_reply ? flow->tuple.sport : flow->tuple.dport;
	out->dest = flow->is_reply ? flow->tuple.dport : flow->tuple.sport;
	out->doff = 5;
	out->rst = 1;
	if (in.ack) {
		out->seq = in.ack_seq;
	} else {
		out->ack = 1;
		out->ack_seq =
		    bpf_htonl(bpf_ntohl(in.seq) + (flow->packet.ip_end - data) + in.syn + in.fin);
	}
	reply->proto = IPPROTO_TCP;
	reply->head = sizeof(*out);
	out->check =
	    pc_folded(bpf_csum_diff(0, 0, (__be32 *)out, sizeof(*out), pc_pseudo_sum(reply)));
	return true;
}

/* Bounds the size to 1 to PC_QUOTE6, so that 6.1's verifier accepts it. It uses a mask, because the
 * verifier forgets comparisons of values that are kept on the stack.
 */
static __always_inline __u32 pc_quotable(__u32 size)
{
	__u32 last = size - 1;

	barrier_var(last);
	return (last & (PC_QUOTE_ROOM - 1)) + 1;
}

/* Quotes as much of the packet as fits, with zeros up to a whole word. */
static __always_inline bool pc_quote(struct __sk_buff *skb, const struct pc_flow *flow,
				     struct pc_quote *quote, struct pc_answer_message *reply)
{
	__u32 most = flow->tuple.family == PC_IPV4 ? PC_QUOTE4 : PC_QUOTE6;
	__u32 size = flow->packet.ip_end - ETH_HLEN;

	if (size > most)
		size = most;
	size = pc_quotable(size);
	if (bpf_skb_load_bytes(skb, ETH_HLEN, quote->bytes, size))
		return false;
	quote->bytes[size] = 0;
	quote->bytes[size + 1] = 0;
	quote->bytes[size + 2] = 0;
	reply->quoted = size;
	return true;
}

static __always_inline __u32 pc_sum_from(struct pc_quote *quote, __u32 at, __u32 size, __u32 sum)
{
	__u32 part = (size + 3) & ~3U;

	if (part <= at)
		return sum;
	part -= at;
	if (part > PC_SUM_MOST)
		part = PC_SUM_MOST;
	barrier_var(part);
	if (part > PC_SUM_MOST)
		return sum;
	return bpf_csum_diff(0, 0, (__be32 *)&quote->bytes[at], part, sum);
}

static __always_inline __u32 pc_quote_sum(struct pc_quote *quote, __u32 size, __u32 sum)
{
	sum = pc_sum_from(quote, 0, size, sum);
	sum = pc_sum_from(quote, PC_SUM_MOST, size, sum);
	return pc_sum_from(quote, 2 * PC_SUM_MOST, size, sum);
}

static __always_inline bool pc_unreachable(struct __sk_buff *skb, const struct pc_flow *flow,
					   __u8 code, struct pc_quote *quote,
					   struct pc_answer_message *reply)
{
	bool is_ip4 = flow->tuple.family == PC_IPV4;
	__u32 sum = 0;

	if (!pc_quote(skb, flow, quote, reply))
		return false;
	reply->proto = is_ip4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
	reply->head = sizeof(reply->icmp);
	reply->icmp.type = is_ip4 ? PC_ICMP_UNREACHABLE : PC_ICMP6_UNREACHABLE;
	reply->icmp.code = code;
	if (flow->action.mtu) {
		reply->icmp.type = is_ip4 ? PC_ICMP_UNREACHABLE : PC_ICMP6_TOO_BIG;
		reply->icmp.code = is_ip4 ? PC_ICMP_TOO_BIG : 0;
		reply->icmp.about = bpf_htonl(flow->action.mtu);
	}
	if (!is_ip4)
		sum = pc_pseudo_sum(reply);
	sum = bpf_csum_diff(0, 0, (__be32 *)&reply->icmp, sizeof(reply->icmp), sum);
	reply->icmp.check = pc_folded(pc_quote_sum(quote, reply->quoted, sum));
	return true;
}
