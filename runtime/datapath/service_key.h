/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* service.h - the service key: the part of a flow, besides its ends, that a policy can match.
 * The kinds are part of the bundle format; the compiler's diagrams are keyed by them.
 */
#pragma once
#include "flow.h"
#include <linux/in.h>
#include <linux/in6.h>

#define PC_ICMP_ECHO_REPLY  0
#define PC_ICMP_ECHO        8
#define PC_ICMP6_ECHO       128
#define PC_ICMP6_ECHO_REPLY 129

enum pc_service_kind {
	PC_SERVICE_TCP = 0,
	PC_SERVICE_UDP = 1,
	PC_SERVICE_SCTP = 2,
	PC_SERVICE_ICMP = 3,
	PC_SERVICE_ICMP6 = 4,
	PC_SERVICE_OTHER = 5,
};

/* The kinds whose ports or types the policies distinguish, as bits. For all others the key is only
 * the protocol. The generated policy.bpf.c defines them.
 */
#ifndef PC_TOLD_APART
#define PC_TOLD_APART 0x1f
#endif
#define PC_TELLS(kind) (PC_TOLD_APART >> (kind)&1)

static __always_inline bool pc_is_icmp(const struct pc_tuple *t)
{
	return t->family == PC_IPV4 ? t->proto == IPPROTO_ICMP : t->proto == IPPROTO_ICMPV6;
}

/* Expects the flow in its original direction. */
static __always_inline __u32 pc_service(const struct pc_flow *flow)
{
	__u32 port = bpf_ntohs(flow->tuple.dport);

	if ((PC_TELLS(PC_SERVICE_ICMP) || PC_TELLS(PC_SERVICE_ICMP6)) && pc_is_icmp(&flow->tuple)) {
		if (PC_TELLS(PC_SERVICE_ICMP) && flow->tuple.family == PC_IPV4)
			return PC_SERVICE_ICMP << 16 | flow->packet.icmp;
		if (PC_TELLS(PC_SERVICE_ICMP6) && flow->tuple.family == PC_IPV6)
			return PC_SERVICE_ICMP6 << 16 | flow->packet.icmp;
	}
	if (PC_TELLS(PC_SERVICE_TCP) && flow->tuple.proto == IPPROTO_TCP)
		return PC_SERVICE_TCP << 16 | port;
	if (PC_TELLS(PC_SERVICE_UDP) && flow->tuple.proto == IPPROTO_UDP)
		return PC_SERVICE_UDP << 16 | port;
	if (PC_TELLS(PC_SERVICE_SCTP) && flow->tuple.proto == IPPROTO_SCTP)
		return PC_SERVICE_SCTP << 16 | port;
	return PC_SERVICE_OTHER << 16 | flow->tuple.proto;
}

/* Turns a flow, seen by its reply, into the flow of its first packet. Only an echo reply changes
 * its message: no other ICMP type has replies.
 */
static __always_inline void pc_flow_turn(struct pc_flow *flow)
{
	struct pc_addr6 saddr = flow->tuple.saddr;
	struct pc_endpoint src = flow->src;
	__be16 sport = flow->tuple.sport;

	flow->tuple.saddr = flow->tuple.daddr;
	flow->tuple.daddr = saddr;
	flow->tuple.sport = flow->tuple.dport;
	flow->tuple.dport = sport;
	flow->src = flow->dst;
	flow->dst = src;
	flow->is_reply = !flow->is_reply;
	if (pc_is_icmp(&flow->tuple))
		flow->packet.icmp = (flow->tuple.family == PC_IPV4 ? PC_ICMP_ECHO : PC_ICMP6_ECHO)
				    << 8;
}
