/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* hairpin_error.h - ICMP errors of a pod or the node about a connection to itself by a Service
 * (hairpin.h). Gives pc_hairpin_error().
 *
 * Both ends of such a connection are the sender itself. It reports an error as the endpoint, and
 * receives it as the client, or the reverse. So both ends of the quoted packet are translated, and
 * both of the message (RFC 792; RFC 4443, 2.4; RFC 5508, 4).
 */
#pragma once
#include "nat_icmp.h"

/* Writes one end of the quoted packet (the source if quoted->is_reply) and both ports, which
 * `ports` gives in the quoted packet's order. The verifier checks this function once.
 */
__noinline int pc_hairpin_quoted(struct __sk_buff *skb, struct pc_flow *flow,
				 const struct pc_quoted *quoted, const struct pc_addr6 *to,
				 __u32 ports)
{
	__be16 src = ports >> 16, dst = ports;

	if (!flow || !quoted || !to)
		return false;
	return pc_nat_quoted(skb, flow, quoted, to, quoted->is_reply ? src : dst,
			     quoted->is_reply ? dst : src);
}

/* The ports that the quoted packet had at its sender. The client sees the Service's port, and the
 * endpoint its own; each sees the client's port as that end knows it.
 */
static __always_inline __u32 pc_hairpin_ports(const struct pc_quoted *quoted,
					      const struct pc_backend *backend)
{
	if (quoted->state & PC_CT_PRE_NAT)
		return (__u32)backend->port << 16 | quoted->nat_port;
	return (__u32)quoted->nat_port << 16 | backend->frontend_port;
}

/* Both ends of the message itself. A separate function, for its own stack frame. */
__noinline int pc_hairpin_readdress(struct __sk_buff *skb, struct pc_flow *flow,
				    const struct pc_addr6 *to)
{
	return flow && to &&
	       pc_nat_addr(skb, flow, PC_NAT_SRC, &flow->tuple.saddr, &flow->nat.daddr) &&
	       pc_nat_addr(skb, flow, PC_NAT_DST, &flow->tuple.daddr, to);
}

/* Both ends of the quoted packet, and both of the message; flow->nat.daddr is its new source. */
static __always_inline bool pc_hairpin_requote(struct __sk_buff *skb, struct pc_flow *flow,
					       struct pc_quoted *quoted,
					       const struct pc_backend *backend)
{
	__u32 ports = pc_hairpin_ports(quoted, backend);

	quoted->is_reply = false;
	if (!pc_hairpin_quoted(skb, flow, quoted, &flow->nat.daddr, ports))
		return false;
	quoted->is_reply = true;
	quoted->tuple.sport = ports >> 16;
	quoted->tuple.dport = ports;
	return pc_hairpin_quoted(skb, flow, quoted, &backend->addr, ports) &&
	       pc_hairpin_readdress(skb, flow, &backend->addr);
}

/* The message's new source, in flow->nat.daddr, which has no other use here. */
__noinline int pc_hairpin_sender(struct pc_flow *flow, const struct pc_backend *backend, __u32 node,
				 bool is_pre_nat)
{
	if (!flow || !backend)
		return 0;
	if (is_pre_nat)
		pc_hairpin_address(&flow->nat.daddr, flow->tuple.family);
	else
		flow->nat.daddr = *pc_frontend_addr(&backend->frontend, flow->tuple.family, node);
	return 0;
}

/* The error returns to its sender. Sent as the client, it quotes a reply of the Service, and goes
 * to the endpoint, which sent that reply to the reserved address. As the endpoint, the reverse.
 */
__noinline int pc_hairpin_error(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_quoted quoted = {};
	const struct pc_backend *backend;
	enum pc_reporter by;

	if (!flow)
		return PC_DROP_HAIRPIN;
	by = flow->client == PC_CLIENT_NODE ? PC_BY_NODE : PC_BY_POD;
	if (!pc_find_related(skb, flow, by, &quoted) ||
	    quoted.is_reply != !!(quoted.state & PC_CT_PRE_NAT))
		return PC_DROP_HAIRPIN;
	backend = pc_nat_backend(quoted.nat_backend, quoted.tuple.proto);
	if (!backend)
		return PC_DROP_BACKEND_GONE;
	pc_hairpin_sender(flow, backend, quoted.node, quoted.is_reply);
	return pc_hairpin_requote(skb, flow, &quoted, backend) ? PC_PASS : PC_DROP_MALFORMED;
}
