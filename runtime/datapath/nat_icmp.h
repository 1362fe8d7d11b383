/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* nat_icmp.h - ICMP errors about translated packets, so that the sender recognises them (RFC 5508,
 * 4). Gives pc_error(). The quoted headers are translated back, with their checksums and the
 * message's. The source is translated if the endpoint itself reports. Routers keep their own
 * address.
 */
#pragma once
#include "nat_hooks.h"
#include "external_map.h"
#include "related.h"
#include "return_path.h"

#define PC_ICMP_CHECK_AT    2
#define PC_QUOTED_CHECK_AT  10 /* from a quoted IPv4 header's start */
#define PC_QUOTED_SADDR4_AT 12
#define PC_QUOTED_SADDR6_AT 8

/* Writes two bytes of the message, and updates its checksum. */
static __always_inline bool pc_quoted_half(struct __sk_buff *skb, const struct pc_flow *flow,
					   __u32 at, __be16 from, __be16 to)
{
	return !bpf_l4_csum_replace(skb, flow->packet.l4 + PC_ICMP_CHECK_AT, from, to,
				    sizeof(to)) &&
	       !bpf_skb_store_bytes(skb, at, &to, sizeof(to), 0);
}

/* The same for an address. */
static __always_inline bool pc_quoted_addr(struct __sk_buff *skb, const struct pc_flow *flow,
					   __u32 at, const struct pc_addr6 *from,
					   const struct pc_addr6 *to)
{
	__u32 size = flow->tuple.family == PC_IPV4 ? 4 : 16;
	__s64 sum = bpf_csum_diff((__be32 *)from, sizeof(*from), (__be32 *)to, sizeof(*to), 0);

	return !bpf_l4_csum_replace(skb, flow->packet.l4 + PC_ICMP_CHECK_AT, 0, sum, 0) &&
	       !bpf_skb_store_bytes(skb, at, to, size, 0);
}

/* Updates a quoted checksum over data that changed by `sum`, and the message's own. */
static __always_inline bool pc_quoted_check(struct __sk_buff *skb, const struct pc_flow *flow,
					    __u32 at, __s64 sum, __u64 flags)
{
	__be16 from, to;

	if (bpf_skb_load_bytes(skb, at, &from, sizeof(from)) ||
	    bpf_l4_csum_replace(skb, at, 0, sum, flags) ||
	    bpf_skb_load_bytes(skb, at, &to, sizeof(to)))
		return false;
	return !bpf_l4_csum_replace(skb, flow->packet.l4 + PC_ICMP_CHECK_AT, from, to, sizeof(to));
}

/* The quote may cut off the transport header. It always has a UDP checksum, which may be 0, and
 * rarely a TCP checksum. SCTP's checksum covers no addresses, and no other translated field.
 */
static __always_inline bool pc_quoted_l4_check(struct __sk_buff *skb, const struct pc_flow *flow,
					       const struct pc_quoted *quoted, __s64 sum)
{
	__u32 at = quoted->l4 + pc_l4_checksum_at(&quoted->tuple);
	__be16 check;

	if (quoted->tuple.proto == IPPROTO_SCTP || at + sizeof(check) > flow->packet.ip_end)
		return true;
	if (bpf_skb_load_bytes(skb, at, &check, sizeof(check)))
		return false;
	if (!check && quoted->tuple.proto == IPPROTO_UDP)
		return true;
	return pc_quoted_check(skb, flow, at, sum,
			       quoted->tuple.proto == IPPROTO_UDP ? BPF_F_MARK_MANGLED_0 : 0);
}

/* Translates the quoted packet's destination, or its source if it is a reply. `to` is that end as
 * the other side knows it, and `port` is the client's port as that side knows it.
 */
static __always_inline bool pc_nat_quoted(struct __sk_buff *skb, const struct pc_flow *flow,
					  const struct pc_quoted *quoted, const struct pc_addr6 *to,
					  __be16 to_port, __be16 client_port)
{
	bool reply = quoted->is_reply;
	bool is4 = flow->tuple.family == PC_IPV4;
	__u32 ip = flow->packet.l4 + PC_ICMP_HEADER;
	const struct pc_addr6 *from = reply ? &quoted->tuple.saddr : &quoted->tuple.daddr;
	__be32 ports[2] = {quoted->tuple.sport, quoted->tuple.dport};
	__be32 then[2] = {reply ? to_port : client_port, reply ? client_port : to_port};
	__u32 at = ip + (is4 ? PC_QUOTED_SADDR4_AT : PC_QUOTED_SADDR6_AT);
	__s64 sum = bpf_csum_diff((__be32 *)from, sizeof(*from), (__be32 *)to, sizeof(*to), 0);

	if (!reply)
		at += is4 ? 4 : 16;
	if (is4 && !pc_quoted_check(skb, flow, ip + PC_QUOTED_CHECK_AT, sum, 0))
		return false;
	sum = bpf_csum_diff(ports, sizeof(ports), then, sizeof(then), sum);
	return pc_quoted_l4_check(skb, flow, quoted, sum) &&
	       pc_quoted_addr(skb, flow, at, from, to) &&
	       pc_quoted_half(skb, flow, quoted->l4, ports[0], then[0]) &&
	       pc_quoted_half(skb, flow, quoted->l4 + 2, ports[1], then[1]);
}

/* An error of a client about a Service's reply becomes one to the endpoint. An error to a client
 * about its packet to a Service becomes one about that packet. Any other error passes unchanged.
 */
__noinline int pc_nat_error(struct __sk_buff *skb, struct pc_flow *flow,
			    const struct pc_quoted *quoted, bool own)
{
	const struct pc_addr6 *from, *to;
	const struct pc_backend *backend;
	bool pre_nat;

	if (!flow || !quoted)
		return PC_DROP_MALFORMED;
	pre_nat = quoted->state & PC_CT_PRE_NAT;
	backend = pc_backend_of(quoted->nat_backend);
	/* If the reply left the cluster here, the client's error about it goes to no other node.
	 * An error to a client takes the path of replies.
	 */
	if (own ? quoted->state & PC_CT_OTHER_NODE
		: quoted->is_external && quoted->state & PC_CT_NAT && !pc_is_dsr(backend))
		flow->action.node = quoted->node;
	if (quoted->state & PC_CT_OTHER_NODE)
		return PC_PASS; /* the other node translates it */
	if (!(quoted->state & PC_CT_NAT) || pre_nat != own || quoted->is_reply != own)
		return PC_PASS;
	backend = pc_nat_backend(quoted->nat_backend, quoted->tuple.proto);
	if (!backend)
		return PC_DROP_BACKEND_GONE;
	to = pre_nat ? &backend->addr
		     : pc_frontend_addr(&backend->frontend, flow->tuple.family, quoted->node);
	if (!pc_nat_quoted(skb, flow, quoted, to, pre_nat ? backend->port : backend->frontend_port,
			   quoted->nat_port))
		return PC_DROP_MALFORMED;
	from = pre_nat ? &flow->tuple.daddr : &flow->tuple.saddr;
	if (!pre_nat && !pc_addr_eq(from, &backend->addr))
		return PC_PASS;
	if (!pc_nat_addr(skb, flow, pre_nat ? PC_NAT_DST : PC_NAT_SRC, from, to))
		return PC_DROP_MALFORMED;
	if (pre_nat && flow->client == PC_CLIENT_NODE)
		flow->tuple.daddr = *to; /* its path is looked up by this address */
	return PC_PASS;
}

/* Whether the error is about a packet that the node itself sent to a Service by a route. Then the
 * node is told, and no later hook knows of the Service.
 */
static __always_inline bool pc_is_to_routed(const struct pc_quoted *quoted)
{
	__u32 routed = PC_CT_NAT | PC_CT_NODE;

	return (quoted->state & (routed | PC_CT_PRE_NAT)) == routed && !quoted->is_reply;
}

/* Whether a pod or node reaches itself: hairpin_error.h continues. The quoted packet has the
 * reserved address, or is a reply of the Service to one of its endpoints.
 */
static __always_inline bool pc_is_to_itself(const struct pc_quoted *quoted)
{
	const struct pc_backend *backend;

	if (pc_is_hairpin(&quoted->tuple.saddr, quoted->tuple.family))
		return true;
	backend = quoted->state & PC_CT_PRE_NAT ? pc_backend_of(quoted->nat_backend) : 0;
	return backend && pc_addr_eq(&backend->addr, &quoted->tuple.daddr);
}

/* Whether an error without a connection claims to be about a Service's packet. It has no receiver:
 * any error can quote an address, and that makes no connection. At the node's own address, a server
 * of the node may have the Service's port without translation. Then the error is for the node's
 * stack, which knows its sockets.
 */
__noinline int pc_error_is_forged(struct __sk_buff *skb, struct pc_flow *flow, __u32 state)
{
	struct pc_tuple was = {}, to = {};
	__u32 at;

	if (!flow || !(state & PC_STATE_SERVICES))
		return false;
	at = flow->packet.l4 + PC_ICMP_HEADER;
	at = flow->tuple.family == PC_IPV4 ? pc_inner_ip4(skb, at, &was)
					   : pc_inner_ip6(skb, at, &was);
	if (!at || !pc_inner_ports(skb, at, &was) || !pc_addr_eq(&was.saddr, &flow->tuple.daddr))
		return false;
	to.daddr = was.saddr;
	to.dport = was.sport;
	to.proto = was.proto;
	to.family = was.family;
	return !pc_is_own_node(to.family, &to.daddr) && pc_frontend_of(&to, state);
}

/* The verifier checks this function once, like the one above. */
__noinline int pc_find_related(struct __sk_buff *skb, struct pc_flow *flow, enum pc_reporter by,
			       struct pc_quoted *quoted)
{
	return flow && quoted && pc_is_related(skb, flow, by, quoted);
}

/* For an ICMP error; PC_STEP_OTHER if it belongs to no connection. PC_STEP_HAIRPIN: the error is
 * not translated yet. PC_STEP_ROUTE_BACK: an error of a Service to the node must come in by the
 * route to that Service. A separate function, as the hooks' stacks are full.
 */
__noinline int pc_error(struct __sk_buff *skb, struct pc_flow *flow, enum pc_reporter by)
{
	struct pc_quoted quoted = {};
	bool routed;
	int reason;

	if (!flow || !pc_find_related(skb, flow, by, &quoted))
		return PC_STEP_OTHER;
	if (by != PC_BY_OTHERS && pc_is_to_itself(&quoted))
		return PC_STEP_HAIRPIN;
	routed = by != PC_BY_OTHERS && pc_is_to_routed(&quoted);
	if (routed && !pc_is_own_node(flow->tuple.family, &flow->tuple.daddr))
		return PC_DROP_BACKEND_GONE;
	reason = pc_nat_error(skb, flow, &quoted, by != PC_BY_OTHERS && !routed);
	if (!reason && routed && pc_addr_eq(&flow->tuple.saddr, &quoted.tuple.daddr))
		return PC_STEP_ROUTE_BACK;
	return reason;
}
