/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* masq_hooks.h - what the uplinks' hooks do to packets of pods that leave the cluster, and to the
 * answers. Gives pc_masq_out(), pc_masq_asked(), pc_masq_in().
 *
 * The host's stack has routed what leaves, and the pod's hook has decided, both by the pod's own
 * address; an answer has that again before either sees it. So nobody else knows of the translation.
 */
#pragma once
#include "masq_fragments.h"
#include "masq_icmp.h"

/* Is it the answer in a connection that somebody outside has opened? He knows the pod's address. */
static __always_inline bool pc_masq_is_answer(const struct pc_flow *flow)
{
	struct pc_ct_at at = pc_ct_get(&flow->t, true);

	return at.ct && at.ct->expires > flow->now && !at.ct->src.ifindex && at.back != at.ct->back;
}

/* Whether a connection begins with a packet that nothing is known of. What the node sends from one
 * of the ports, and every echo with such an id, is remembered as a pod's is, so that nobody else
 * gets that port. A later fragment of a pod's does not leave by its own address.
 */
__noinline int pc_masq_begin(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_masq_conf *conf = pc_masq_now();
	const struct pc_addr6 *own;

	if (!flow || !conf)
		return PC_DROP_NOT_MASQUERADED;
	pc_endpoint_at(flow->t.family, &flow->t.saddr, &flow->src);
	if (flow->fragment == PC_FRAG_LATER && flow->src.ifindex)
		return pc_masq_is_except(flow->t.family, &flow->t.daddr) ? PC_MASQ_NOT
									 : PC_DROP_FRAGMENT;
	if (!flow->src.ifindex) {
		own = pc_masq_own(conf, flow->t.family, skb->ifindex);
		if (!own || !pc_addr_eq(own, &flow->t.saddr) || !pc_masq_has_port(flow) ||
		    flow->fragment == PC_FRAG_LATER)
			return PC_MASQ_NOT;
	}
	if (pc_masq_is_except(flow->t.family, &flow->t.daddr))
		return PC_MASQ_NOT;
	if (flow->src.ifindex && pc_masq_is_answer(flow))
		return PC_MASQ_NOT;
	return pc_masq_has_port(flow) ? PC_PASS : PC_DROP_NOT_MASQUERADED;
}

/* The node's own, from a port that no pod is given: most of what the node sends. */
static __always_inline bool pc_masq_is_nodes(const struct __sk_buff *skb,
					     const struct pc_flow *flow)
{
	const struct pc_masq_conf *conf = pc_masq_now();
	const struct pc_addr6 *own = conf ? pc_masq_own(conf, flow->t.family, skb->ifindex) : 0;

	return own && pc_addr_eq(own, &flow->t.saddr) && flow->t.proto != IPPROTO_SCTP &&
	       (!pc_masq_is_port(conf, flow->t.sport) || !pc_masq_has_port(flow));
}

/* A packet of a connection that is known. */
__noinline int pc_masq_known(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_masq_key key = {};
	struct pc_masq_end *end;

	if (!flow)
		return PC_DROP_NOT_MASQUERADED;
	if (flow->fragment == PC_FRAG_LATER)
		return pc_masq_follow(skb, flow, PC_NAT_SRC);
	if (pc_masq_is_nodes(skb, flow))
		return PC_PASS;
	pc_endpoint_at(flow->t.family, &flow->t.daddr, &flow->dst);
	if (flow->dst.id) /* most of what a pod sends, and it costs no other look-up */
		return PC_PASS;
	pc_masq_set_ends(&key, flow, true);
	end = pc_masq_has_port(flow) ? pc_masq_find(flow, &key) : 0;
	if (!end || end->uplink != skb->ifindex || !pc_masq_leaves(flow, end, &key) ||
	    !pc_masq_touch(skb, flow, &key, end, false))
		return PC_MASQ_NEW;
	pc_masq_frag_note(flow, &end->addr, end->device);
	return pc_masq_write(skb, flow, end, PC_NAT_SRC);
}

/* What leaves by an uplink, and is no ICMP error. One after the other, as the stack has no room for
 * one inside the other.
 */
static __always_inline int pc_masq_out(struct __sk_buff *skb, struct pc_flow *flow)
{
	int then = pc_masq_known(skb, flow);

	if (then != PC_MASQ_NEW)
		return then;
	then = pc_masq_begin(skb, flow);
	if (then == PC_MASQ_NOT) {
		pc_masq_frag_note(flow, &flow->t.saddr, flow->src.ifindex);
		return PC_PASS;
	}
	if (!then)
		then = pc_masq_open(flow, skb->ifindex);
	if (!then)
		then = pc_masq_known(skb, flow);
	return then == PC_MASQ_NEW ? PC_DROP_CT_FULL : then;
}

/* The same of what the node sends and its policy is to be asked about, which ends the hook: so it
 * goes first, and the policy is asked about the flow as it was sent.
 */
__noinline int pc_masq_asked(struct __sk_buff *skb, struct pc_flow *flow)
{
	__u32 src, dst;
	int then;

	if (!flow || flow->is_reply)
		return PC_PASS;
	src = flow->src.ifindex;
	dst = flow->dst.ifindex;
	then = pc_masq_out(skb, flow);
	flow->src.ifindex = src;
	flow->dst.ifindex = dst;
	return then;
}

/* What comes in by an uplink, and is no ICMP error. PC_MASQ_NOT: it answers no pod. An answer to
 * the node itself, which may be guarded, is none either: it has the port that was translated back.
 */
__noinline int pc_masq_in(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_masq_conf *conf = pc_masq_now();
	struct pc_masq_key key = {.is_out = true};
	struct pc_masq_end *end;
	int then;

	if (!flow || !conf)
		return PC_MASQ_NOT;
	if (flow->fragment == PC_FRAG_LATER)
		return pc_masq_follow(skb, flow, PC_NAT_DST);
	if ((flow->t.proto != IPPROTO_SCTP && !pc_masq_is_port(conf, flow->t.dport)) ||
	    !pc_masq_is_own(conf, flow->t.family, &flow->t.daddr))
		return PC_MASQ_NOT;
	pc_masq_set_ends(&key, flow, false);
	end = pc_masq_find(flow, &key);
	if (!end || !pc_masq_holds(flow, end, &end->addr, &flow->t.saddr) ||
	    !pc_masq_touch(skb, flow, &key, end, true))
		return PC_MASQ_NOT;
	pc_masq_frag_note(flow, &end->addr, PC_OWNER_OUTSIDE);
	then = pc_masq_write(skb, flow, end, PC_NAT_DST);
	if (then || end->device)
		return then;
	flow->t.dport = end->port;
	return PC_MASQ_NOT;
}
