/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* related.h - ICMP errors about a connection that is allowed (semantics A24).
 * Gives pc_is_icmp_error() and pc_is_related(). An error without a connection is an ordinary ICMP
 * message, which the policy decides.
 */
#pragma once
#include "ct.h"
#include "hairpin_addr.h"
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#define PC_ICMP_UNREACHABLE   3
#define PC_ICMP_TIME_EXCEEDED 11
#define PC_ICMP_PARAMETER     12
#define PC_ICMP6_UNREACHABLE  1
#define PC_ICMP6_PARAMETER    4
#define PC_ICMP_HEADER        8
#define PC_IP6_NEXT_IN        6 /* an IPv6 header: offsets of its next header, and of its source */
#define PC_IP6_SADDR_IN       8

static __always_inline bool pc_is_icmp_error(const struct pc_flow *flow)
{
	__u8 type = flow->packet.icmp >> 8;

	if (!pc_is_icmp(&flow->tuple))
		return false;
	if (flow->tuple.family == PC_IPV6)
		return type >= PC_ICMP6_UNREACHABLE && type <= PC_ICMP6_PARAMETER;
	return type == PC_ICMP_UNREACHABLE || type == PC_ICMP_TIME_EXCEEDED ||
	       type == PC_ICMP_PARAMETER;
}

/* Reads the IP header that the error quotes. Returns the offset of its transport header, or 0. */
static __always_inline __u32 pc_inner_ip4(struct __sk_buff *skb, __u32 at, struct pc_tuple *inner)
{
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5 ||
	    ip.frag_off & bpf_htons(0x1fff))
		return 0;
	inner->family = PC_IPV4;
	inner->proto = ip.protocol;
	inner->saddr.word[0] = ip.saddr;
	inner->daddr.word[0] = ip.daddr;
	return at + ip.ihl * 4;
}

/* Extension headers in the quoted packet are not walked: the policy decides such an error. */
static __always_inline __u32 pc_inner_ip6(struct __sk_buff *skb, __u32 at, struct pc_tuple *inner)
{
	__u8 head[PC_IP6_SADDR_IN]; /* the stack has no room for the whole header */

	if (bpf_skb_load_bytes(skb, at, head, sizeof(head)) || head[0] >> 4 != 6 ||
	    bpf_skb_load_bytes(skb, at + sizeof(head), &inner->saddr, sizeof(inner->saddr)) ||
	    bpf_skb_load_bytes(skb, at + sizeof(head) + sizeof(inner->saddr), &inner->daddr,
			       sizeof(inner->daddr)))
		return 0;
	inner->family = PC_IPV6;
	inner->proto = head[PC_IP6_NEXT_IN];
	return at + sizeof(struct ipv6hdr);
}

/* Only the first eight bytes of the transport header are certain to be quoted. */
static __always_inline bool pc_inner_ports(struct __sk_buff *skb, __u32 at, struct pc_tuple *inner)
{
	union {
		__u8 bytes[8];
		__be16 half[4];
	} head;

	if (!pc_l4_header(inner))
		return true;
	if (bpf_skb_load_bytes(skb, at, &head, sizeof(head)))
		return false;
	if (pc_is_icmp(inner)) {
		pc_icmp_tuple(inner, head.bytes[0] << 8 | head.bytes[1], head.half[2]);
	} else {
		inner->sport = head.half[0];
		inner->dport = head.half[1];
	}
	return true;
}

/* The packet that an error quotes, and its connection. */
struct pc_quoted {
	struct pc_tuple tuple;
	__u32 l4;    /* offset of its transport header */
	__u32 state; /* the connection's, and its translation */
	__u32 nat_backend;
	__be16 nat_port;
	bool is_reply;
	bool is_external; /* the client of the Service is external */
	__u32 node;       /* as pc_ct_node() */
};

/* The reporter of an error. OTHERS: a receiver of the client's packet, or a router. POD: a pod.
 * OUTSIDE: a receiver or router of a reply to an external client. NODE: this node, about a packet
 * that came by its route to Services (to_route.h).
 */
enum pc_reporter { PC_BY_OTHERS = 0, PC_BY_POD, PC_BY_EXTERNAL, PC_BY_NODE };

/* No policy decides connections to another node, those of the node by its route to Services, and
 * those of a pod to itself by a Service: a policy change does not affect them.
 */
static __always_inline bool pc_ct_is_asked(const struct pc_ct *ct)
{
	return !(ct->state & PC_CT_OTHER_NODE) && !pc_is_routed(ct) &&
	       !(ct->state & PC_CT_NAT && ct->src.ifindex && ct->src.ifindex == ct->dst.ifindex);
}

/* Whether the reporter can have seen the quoted packet. Only the client has seen the Service's
 * address, and only a pod or node that reaches itself has seen the reserved one.
 */
static __always_inline bool pc_may_report(const struct pc_flow *flow, const struct pc_ct *ct,
					  enum pc_reporter by, const struct pc_tuple *quoted)
{
	bool is_pre_nat = ct->state & PC_CT_PRE_NAT;

	if (by == PC_BY_OTHERS)
		return !is_pre_nat;
	if (!is_pre_nat && !pc_is_hairpin(&quoted->saddr, quoted->family))
		return by != PC_BY_NODE;
	if (by == PC_BY_POD)
		return ct->src.ifindex == flow->device;
	return !ct->src.ifindex && pc_is_routed(ct) == (by == PC_BY_NODE);
}

/* True if the quoted packet belongs to a connection that passes now, and the error goes to that
 * packet's sender. A pod may report only its own packets, as it is no router. Only a client sees a
 * Service's address in them, and any router on the path to an external client.
 */
static __always_inline bool pc_is_related(struct __sk_buff *skb, const struct pc_flow *flow,
					  enum pc_reporter by, struct pc_quoted *quoted)
{
	__u32 at = flow->packet.l4 + PC_ICMP_HEADER;
	struct pc_ct_at found;

	quoted->l4 = flow->tuple.family == PC_IPV4 ? pc_inner_ip4(skb, at, &quoted->tuple)
						   : pc_inner_ip6(skb, at, &quoted->tuple);
	if (!quoted->l4 || !pc_inner_ports(skb, quoted->l4, &quoted->tuple))
		return false;
	if (!pc_addr_eq(&quoted->tuple.saddr, &flow->tuple.daddr))
		return false;
	if ((by == PC_BY_POD || by == PC_BY_NODE) &&
	    !pc_addr_eq(&quoted->tuple.daddr, &flow->tuple.saddr))
		return false;
	found = pc_ct_get(&quoted->tuple, true);
	if (!found.ct || found.ct->expires <= flow->now ||
	    (found.ct->epoch != flow->epoch && pc_ct_is_asked(found.ct)))
		return false;
	quoted->state = found.ct->state;
	quoted->nat_backend = pc_ct_nat_of(found.ct)->backend;
	quoted->nat_port = pc_ct_nat_of(found.ct)->port;
	quoted->is_reply = found.back != found.ct->back;
	quoted->is_external = !found.ct->src.ifindex && !pc_is_routed(found.ct);
	quoted->node = pc_ct_node(found.ct);
	return pc_ct_is_decided(found.ct) && pc_may_report(flow, found.ct, by, &quoted->tuple);
}
