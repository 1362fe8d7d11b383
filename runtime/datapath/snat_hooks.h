/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* snat_hooks.h - SNAT at the uplinks' hooks: for packets of pods that leave the cluster, and for
 * the replies. Gives pc_snat_out(), pc_snat_asked(), pc_snat_in().
 *
 * The host's stack routes a packet, and the pod's hook decides it, by the pod's own address. A
 * reply has that address again before either sees it. So only the uplinks' hooks know of SNAT.
 */
#pragma once
#include "snat_fragments.h"
#include "snat_icmp.h"

/* Whether this is a reply to an external host, which opened the connection to the pod's own
 * address. */
static __always_inline bool pc_snat_is_reply(const struct pc_flow *flow)
{
	struct pc_ct_at at = pc_ct_get(&flow->tuple, true);

	return at.ct && at.ct->expires > flow->now && !at.ct->src.ifindex && at.back != at.ct->back;
}

/* Whether a packet without a SNAT entry opens a connection. A packet of the node from a port of the
 * range, and every echo with such an id, is recorded like a pod's, so that no pod gets that port. A
 * pod's later fragment never leaves under the pod's own address.
 */
__noinline int pc_snat_begin(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_snat_conf *conf = pc_snat_now();
	const struct pc_addr6 *own;

	if (!flow || !conf)
		return PC_DROP_NOT_MASQUERADED;
	pc_endpoint_at(flow->tuple.family, &flow->tuple.saddr, &flow->src);
	if (flow->packet.fragment == PC_FRAG_LATER && flow->src.ifindex)
		return pc_snat_is_except(flow->tuple.family, &flow->tuple.daddr) ? PC_STEP_OTHER
										 : PC_DROP_FRAGMENT;
	if (!flow->src.ifindex) {
		own = pc_snat_own(conf, flow->tuple.family, skb->ifindex);
		if (!own || !pc_addr_eq(own, &flow->tuple.saddr) || !pc_snat_has_port(flow) ||
		    flow->packet.fragment == PC_FRAG_LATER)
			return PC_STEP_OTHER;
	}
	if (pc_snat_is_except(flow->tuple.family, &flow->tuple.daddr))
		return PC_STEP_OTHER;
	if (flow->src.ifindex && pc_snat_is_reply(flow))
		return PC_STEP_OTHER;
	return pc_snat_has_port(flow) ? PC_PASS : PC_DROP_NOT_MASQUERADED;
}

/* The node's own packet, from a port outside the SNAT range: the most common case for the node. */
static __always_inline bool pc_snat_is_nodes(const struct __sk_buff *skb,
					     const struct pc_flow *flow)
{
	const struct pc_snat_conf *conf = pc_snat_now();
	const struct pc_addr6 *own = conf ? pc_snat_own(conf, flow->tuple.family, skb->ifindex) : 0;

	return own && pc_addr_eq(own, &flow->tuple.saddr) && flow->tuple.proto != IPPROTO_SCTP &&
	       (!pc_snat_is_port(conf, flow->tuple.sport) || !pc_snat_has_port(flow));
}

/* A packet of a known connection. */
__noinline int pc_snat_known(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_snat_key key = {};
	struct pc_snat_entry *end;

	if (!flow)
		return PC_DROP_NOT_MASQUERADED;
	if (flow->packet.fragment == PC_FRAG_LATER)
		return pc_snat_follow(skb, flow, PC_NAT_SRC);
	if (pc_snat_is_nodes(skb, flow))
		return PC_PASS;
	pc_endpoint_at(flow->tuple.family, &flow->tuple.daddr, &flow->dst);
	if (flow->dst.id) /* the most common case for pods; needs no other lookup */
		return PC_PASS;
	pc_snat_set_ends(&key, flow, true);
	end = pc_snat_has_port(flow) ? pc_snat_find(flow, &key) : 0;
	if (!end || end->uplink != skb->ifindex || !pc_snat_leaves(flow, end, &key) ||
	    !pc_snat_touch(skb, flow, &key, end, false))
		return PC_STEP_NEW;
	pc_snat_frag_note(flow, &end->addr, end->device);
	return pc_snat_write(skb, flow, end, PC_NAT_SRC);
}

/* For a packet that leaves by an uplink, except ICMP errors. Calls the functions one after the
 * other: the BPF stack has no room for one inside the other.
 */
static __always_inline int pc_snat_out(struct __sk_buff *skb, struct pc_flow *flow)
{
	int then = pc_snat_known(skb, flow);

	if (then != PC_STEP_NEW)
		return then;
	then = pc_snat_begin(skb, flow);
	if (then == PC_STEP_OTHER) {
		pc_snat_frag_note(flow, &flow->tuple.saddr, flow->src.ifindex);
		return PC_PASS;
	}
	if (!then)
		then = pc_snat_open(flow, skb->ifindex);
	if (!then)
		then = pc_snat_known(skb, flow);
	return then == PC_STEP_NEW ? PC_DROP_CT_FULL : then;
}

/* The same for a packet of the node whose policy must decide. That decision is a tail call and ends
 * the hook, so this runs first. The policy still decides the flow as the node sent it.
 */
__noinline int pc_snat_asked(struct __sk_buff *skb, struct pc_flow *flow)
{
	__u32 src, dst;
	int then;

	if (!flow || flow->is_reply)
		return PC_PASS;
	src = flow->src.ifindex;
	dst = flow->dst.ifindex;
	then = pc_snat_out(skb, flow);
	flow->src.ifindex = src;
	flow->dst.ifindex = dst;
	return then;
}

/* For a packet that comes in by an uplink, except ICMP errors. PC_STEP_OTHER: it is no reply to a
 * pod. That includes a reply to the node itself, maybe under host policy: its port is then
 * translated back.
 */
__noinline int pc_snat_in(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_snat_conf *conf = pc_snat_now();
	struct pc_snat_key key = {.is_out = true};
	struct pc_snat_entry *end;
	int then;

	if (!flow || !conf)
		return PC_STEP_OTHER;
	if (flow->packet.fragment == PC_FRAG_LATER)
		return pc_snat_follow(skb, flow, PC_NAT_DST);
	if ((flow->tuple.proto != IPPROTO_SCTP && !pc_snat_is_port(conf, flow->tuple.dport)) ||
	    !pc_snat_is_own(conf, flow->tuple.family, &flow->tuple.daddr))
		return PC_STEP_OTHER;
	pc_snat_set_ends(&key, flow, false);
	end = pc_snat_find(flow, &key);
	if (!end || !pc_snat_holds(flow, end, &end->addr, &flow->tuple.saddr) ||
	    !pc_snat_touch(skb, flow, &key, end, true))
		return PC_STEP_OTHER;
	pc_snat_frag_note(flow, &end->addr, PC_OWNER_EXTERNAL);
	then = pc_snat_write(skb, flow, end, PC_NAT_DST);
	if (then || end->device)
		return then;
	flow->tuple.dport = end->port;
	return PC_STEP_OTHER;
}
