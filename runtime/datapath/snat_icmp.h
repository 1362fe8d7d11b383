/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* snat_icmp.h - ICMP errors about packets with SNAT, in both directions.
 * Gives pc_snat_error_in(), pc_snat_error_out(), pc_snat_may_report(). The quoted packet is
 * translated to what the receiver of the error has sent.
 */
#pragma once
#include "snat.h"
#include "nat_icmp.h"
#include "external.h"

/* Reads the packet that the error quotes, if it has ports. Verified once, on its own. */
__noinline int pc_snat_quote(struct __sk_buff *skb, struct pc_flow *flow, struct pc_quoted *quoted)
{
	__u32 at;

	if (!flow || !quoted)
		return false;
	at = flow->packet.l4 + PC_ICMP_HEADER;
	quoted->l4 = flow->tuple.family == PC_IPV4 ? pc_inner_ip4(skb, at, &quoted->tuple)
						   : pc_inner_ip6(skb, at, &quoted->tuple);
	return quoted->l4 && pc_inner_ports(skb, quoted->l4, &quoted->tuple);
}

/* The other end's port does not change. */
static __always_inline bool pc_snat_quoted_echo(struct __sk_buff *skb, const struct pc_flow *flow,
						const struct pc_quoted *quoted,
						const struct pc_snat_entry *to)
{
	bool is4 = flow->tuple.family == PC_IPV4, is_source = quoted->is_reply;
	__u32 ip = flow->packet.l4 + PC_ICMP_HEADER, at = ip;
	const struct pc_addr6 *from = is_source ? &quoted->tuple.saddr : &quoted->tuple.daddr;
	__be32 was = is_source ? quoted->tuple.sport : quoted->tuple.dport, is = to->port;
	__s64 sum =
	    bpf_csum_diff((__be32 *)from, sizeof(*from), (__be32 *)&to->addr, sizeof(*from), 0);

	at += is4 ? PC_QUOTED_SADDR4_AT : PC_QUOTED_SADDR6_AT;
	if (!is_source)
		at += is4 ? 4 : 16;
	if (is4 && !pc_quoted_check(skb, flow, ip + PC_QUOTED_CHECK_AT, sum, 0))
		return false;
	sum = bpf_csum_diff(&was, sizeof(was), &is, sizeof(is), is4 ? 0 : sum);
	return pc_quoted_check(skb, flow, quoted->l4 + pc_l4_checksum_at(&quoted->tuple), sum, 0) &&
	       pc_quoted_addr(skb, flow, at, from, &to->addr) &&
	       pc_quoted_half(skb, flow, quoted->l4 + PC_ECHO_ID_AT, was, is);
}

/* Translates the source of the quoted packet if `is_reply`, else its destination (nat_icmp.h). */
__noinline int pc_snat_requote(struct __sk_buff *skb, struct pc_flow *flow,
			       const struct pc_quoted *quoted, const struct pc_snat_entry *to)
{
	struct pc_addr6 addr;

	if (!flow || !quoted || !to)
		return false;
	if (pc_is_icmp(&quoted->tuple))
		return pc_snat_quoted_echo(skb, flow, quoted, to);
	addr = to->addr;
	return pc_nat_quoted(skb, flow, quoted, &addr, to->port,
			     quoted->is_reply ? quoted->tuple.dport : quoted->tuple.sport);
}

static __always_inline struct pc_snat_key pc_snat_quoted_key(const struct pc_quoted *quoted,
							     bool is_out)
{
	return (struct pc_snat_key){
	    .here = is_out ? quoted->tuple.saddr : quoted->tuple.daddr,
	    .there = is_out ? quoted->tuple.daddr : quoted->tuple.saddr,
	    .port = is_out ? quoted->tuple.sport : quoted->tuple.dport,
	    .there_port = is_out ? quoted->tuple.dport : quoted->tuple.sport,
	    .family = quoted->tuple.family,
	    .proto = quoted->tuple.proto,
	    .is_out = is_out,
	};
}

/* An error from outside about a pod's packet. The quoted packet gets the pod's source back, so the
 * pod's hook finds its connection. PC_STEP_OTHER also for errors about the node's own packets.
 */
__noinline int pc_snat_error_in(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_quoted quoted = {.is_reply = true};
	struct pc_snat_key key;
	struct pc_snat_entry *end;

	if (!flow || !pc_snat_quote(skb, flow, &quoted) ||
	    !pc_addr_eq(&quoted.tuple.saddr, &flow->tuple.daddr))
		return PC_STEP_OTHER;
	key = pc_snat_quoted_key(&quoted, true);
	end = pc_snat_find(flow, &key);
	if (!end || !pc_snat_holds(flow, end, &end->addr, &key.there))
		return PC_STEP_OTHER;
	if (end->port == key.port && pc_addr_eq(&end->addr, &key.here))
		return PC_STEP_OTHER; /* a packet of the node itself */
	if (pc_check_external(flow))
		return PC_DROP_SPOOFED_IP;
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	if (!pc_snat_requote(skb, flow, &quoted, end) ||
	    !pc_nat_addr(skb, flow, PC_NAT_DST, &flow->tuple.daddr, &end->addr))
		return PC_DROP_MALFORMED;
	return end->device ? PC_PASS : PC_STEP_OTHER;
}

/* An error of a pod, or of the node's stack, about a reply to a pod. The quoted packet gets the
 * destination that it had on the wire. A pod's own source address becomes the node's, too.
 */
__noinline int pc_snat_error_out(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_quoted quoted = {};
	struct pc_snat_key key;
	struct pc_snat_entry *end;

	if (!flow || !pc_snat_quote(skb, flow, &quoted))
		return PC_STEP_OTHER;
	key = pc_snat_quoted_key(&quoted, false);
	end = pc_snat_find(flow, &key);
	if (!end || !pc_snat_leaves(flow, end, &key))
		return PC_STEP_OTHER;
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	if (!pc_snat_requote(skb, flow, &quoted, end))
		return PC_DROP_MALFORMED;
	if (!pc_addr_eq(&flow->tuple.saddr, &key.here))
		return PC_PASS;
	return pc_nat_addr(skb, flow, PC_NAT_SRC, &flow->tuple.saddr, &end->addr)
		   ? PC_PASS
		   : PC_DROP_MALFORMED;
}

/* An error without translation. It may leave under a pod's address to excepted networks, and about
 * connections that were opened from outside. A Service may already have given it another source.
 */
__noinline int pc_snat_may_report(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_quoted quoted = {};
	struct pc_ct *ct;
	bool is_read;

	if (!flow)
		return PC_DROP_NOT_MASQUERADED;
	is_read = flow->tuple.family == PC_IPV4
		      ? !bpf_skb_load_bytes(skb, PC_IP4_SADDR_AT, &flow->tuple.saddr, 4)
		      : !bpf_skb_load_bytes(skb, PC_IP6_SADDR_AT, &flow->tuple.saddr, 16);
	pc_endpoint_at(flow->tuple.family, &flow->tuple.saddr, &flow->src);
	if (is_read &&
	    (!flow->src.ifindex || pc_snat_is_except(flow->tuple.family, &flow->tuple.daddr)))
		return PC_PASS;
	if (!is_read || !pc_snat_quote(skb, flow, &quoted))
		return PC_DROP_NOT_MASQUERADED;
	ct = pc_ct_get(&quoted.tuple, true).ct;
	return ct && ct->expires > flow->now && !ct->src.ifindex ? PC_PASS
								 : PC_DROP_NOT_MASQUERADED;
}
