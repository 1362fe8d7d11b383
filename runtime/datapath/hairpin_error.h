/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* hairpin_error.h - ICMP errors of a pod, or of the node, about a connection to itself through a
 * Service (hairpin.h). Gives pc_hairpin_error().
 *
 * Such a one has two ends that are both itself: what it reports on as the endpoint it is told about
 * as the client, and the other way round. So both ends of what is quoted are translated, and both
 * of the message (RFC 792; RFC 4443, 2.4; RFC 5508, 4).
 */
#pragma once
#include "nat_icmp.h"

/* One end of what is quoted, the source if quoted->is_reply, and both ports: those that it is to
 * have, in its own order. Verified once, by itself.
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

/* The ports that what is quoted had where it was sent. A client sees the Service's, and an endpoint
 * its own; each sees the other's as that end does.
 */
static __always_inline __u32 pc_hairpin_ports(const struct pc_quoted *quoted,
					      const struct pc_row *row)
{
	if (quoted->state & PC_CT_FRONT)
		return (__u32)row->backend_port << 16 | quoted->nat_port;
	return (__u32)quoted->nat_port << 16 | row->frontend_port;
}

/* Both ends of the message itself. A function of its own for its stack. */
__noinline int pc_hairpin_readdress(struct __sk_buff *skb, struct pc_flow *flow,
				    const struct pc_addr6 *to)
{
	return flow && to && pc_nat_addr(skb, flow, PC_NAT_SRC, &flow->t.saddr, &flow->nat.daddr) &&
	       pc_nat_addr(skb, flow, PC_NAT_DST, &flow->t.daddr, to);
}

/* Both ends of what is quoted, and both of the message; flow->nat.daddr is whom it is from. */
static __always_inline bool pc_hairpin_requote(struct __sk_buff *skb, struct pc_flow *flow,
					       struct pc_quoted *quoted, const struct pc_row *row)
{
	__u32 ports = pc_hairpin_ports(quoted, row);

	quoted->is_reply = false;
	if (!pc_hairpin_quoted(skb, flow, quoted, &flow->nat.daddr, ports))
		return false;
	quoted->is_reply = true;
	quoted->t.sport = ports >> 16;
	quoted->t.dport = ports;
	return pc_hairpin_quoted(skb, flow, quoted, &row->backend, ports) &&
	       pc_hairpin_readdress(skb, flow, &row->backend);
}

/* Whom it is from, which flow->nat.daddr has no other use for here. */
__noinline int pc_hairpin_sender(struct pc_flow *flow, const struct pc_row *row, __u32 node,
				 bool is_front)
{
	if (!flow || !row)
		return 0;
	if (is_front)
		pc_hairpin_address(&flow->nat.daddr, flow->t.family);
	else
		flow->nat.daddr = *pc_as_known(&row->frontend, flow->t.family, node);
	return 0;
}

/* The error becomes one to who sent it. As the client he has seen the Service, and tells the
 * endpoint, which has sent to the reserved address; as the endpoint the other way round.
 */
__noinline int pc_hairpin_error(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_quoted quoted = {};
	const struct pc_row *row;
	enum pc_reporter by;

	if (!flow)
		return PC_DROP_HAIRPIN;
	by = flow->client == PC_CLIENT_NODE ? PC_BY_NODE : PC_BY_POD;
	if (!pc_find_related(skb, flow, by, &quoted) ||
	    quoted.is_reply != !!(quoted.state & PC_CT_FRONT))
		return PC_DROP_HAIRPIN;
	row = pc_nat_row(quoted.nat_row, quoted.t.proto);
	if (!row)
		return PC_DROP_BACKEND_GONE;
	pc_hairpin_sender(flow, row, quoted.node, quoted.is_reply);
	return pc_hairpin_requote(skb, flow, &quoted, row) ? PC_PASS : PC_DROP_MALFORMED;
}
