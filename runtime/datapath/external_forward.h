/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* external_forward.h - the fast path between an external client and a Service's endpoint on this
 * node. Gives pc_external_is_forwarded() to from_uplink, pc_external_direct() also to from_tunnel,
 * pc_reply_forward() to from_pod, pc_reply_teaches() and pc_reply_learn() to to_uplink.
 *
 * Both directions use the fast path, or neither does: the host's conntrack forgets a connection of
 * which it sees one direction, and its SNAT takes the next reply for a new connection. So the
 * pre-NAT entry's `out` has the uplink by which the client's packets came. Only if replies leave by
 * the same uplink are they redirected to it, and PC_OUT_BOTH is set. to_uplink translates replies
 * on either path. Why: docs/decisions/0058-external-clients-past-the-stack.md
 */
#pragma once
#include "forward_learn.h"
#include "nat_forward.h"
#include "pre_nat.h"

#define PC_OUT_BOTH 0x10 /* in `out` of the pre-NAT entry of an external client */

/* Not if the host has IPsec policies, or translates packets that leave. Its conntrack forgets a
 * connection on the fast path; a packet that later takes the stack path again, a large datagram or
 * the first one under another policy, would be a new connection's, and translated.
 */
static __always_inline bool pc_external_may_bypass(const struct __sk_buff *skb,
						   const struct pc_external *external)
{
	return external && !external->host_nat && !pc_has_ipsec(skb);
}

/* The uplink's place; 0: the packet has come by none of which packets may bypass the stack. */
static __always_inline __u8 pc_came_by(const struct __sk_buff *skb)
{
	const struct pc_external *external = pc_external_now();

	return pc_external_may_bypass(skb, external) ? pc_uplink_place(external, skb->ifindex) : 0;
}

/* The pre-NAT entry of an external client with an endpoint on this node. */
static __always_inline bool pc_is_from_external(const struct pc_ct *ct)
{
	return (ct->state & (PC_CT_PRE_NAT | PC_CT_OTHER_NODE)) == PC_CT_PRE_NAT &&
	       !ct->src.ifindex;
}

/* The stack path has brought packets to the endpoint, and replies leave by the client's uplink,
 * which the last load has, too.
 */
static __always_inline bool pc_is_both_ways(const struct pc_ct *pre_nat)
{
	return pre_nat->out & PC_OUT_BOTH && pc_out_device(pre_nat) &&
	       pre_nat->state & PC_CT_CAME_DST && pre_nat->peers & PC_DECIDED_DST;
}

/* The client came by another uplink before: replies take the stack path until one leaves by this
 * uplink, if packets may bypass the stack there. Expects the translated tuple. The verifier checks
 * this function once.
 */
__noinline int pc_external_came(struct pc_flow *flow, struct pc_ct *pre_nat, __u32 place)
{
	struct pc_ct *ct;

	if (!flow || !pre_nat)
		return 0;
	pre_nat->out = place;
	ct = pc_ct_get(&flow->tuple, true).ct;
	if (ct && ct->flow_id == pre_nat->flow_id)
		ct->out = 0;
	return 0;
}

/* from_uplink: whether a client's packet may be redirected to the endpoint. The active policy has
 * allowed the connection, and the tuple is translated.
 */
static __always_inline bool pc_external_is_forwarded(const struct __sk_buff *skb,
						     struct pc_flow *flow, struct pc_ct *pre_nat)
{
	__u8 place = pc_came_by(skb);

	if ((pre_nat->out & PC_OUT_UPLINK) != place) {
		pc_external_came(flow, pre_nat, place);
		return false;
	}
	return place && pc_is_both_ways(pre_nat);
}

/* A client's packet that another node forwarded, not translated yet; flow->action.node is that
 * node. Sets forward_to, unless the stack must see the packet (PC_STEP_OTHER). No reverse path is
 * looked up here: replies look theirs up (pc_out_again()). The verifier checks this function once.
 */
__noinline int pc_external_direct(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_backend *backend;
	struct pc_ct_match match;
	struct pc_ct *ct;

	if (!flow || !pc_external_may_bypass(skb, pc_external_now()))
		return PC_STEP_OTHER;
	match = pc_ct_find(flow);
	ct = match.at.ct;
	if (!ct || match.is_reply || !match.is_fresh || !pc_is_from_external(ct) ||
	    pc_ct_node(ct) != flow->action.node || !pc_is_both_ways(ct))
		return PC_STEP_OTHER;
	backend = pc_nat_backend(ct->src.nat.backend, flow->tuple.proto);
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	if (!backend || !pc_can_rewrite(flow) || !pc_may_forward(skb, flow, &ct->dst))
		return PC_STEP_OTHER;
	pc_tuple_translate(flow, backend, ct->src.nat.backend, ct->src.nat.port);
	if (pc_pre_nat_touch(flow, &match, backend)) {
		pc_tuple_pre_nat(&flow->tuple, &flow->nat);
		flow->nat.backend = 0;
		return PC_STEP_OTHER;
	}
	return match.at.ct ? pc_rewrite_request(skb, flow, &match.at.ct->dst) : PC_DROP_CT_FULL;
}

/* The pre-NAT entry of an endpoint's reply. Restores the tuple. */
static __always_inline struct pc_ct *pc_reply_pre_nat(struct pc_flow *flow, const struct pc_ct *ct)
{
	const struct pc_backend *backend = pc_backend_of(ct->dst.nat.backend);
	__be16 port = flow->tuple.dport;
	struct pc_ct *pre_nat;

	if (!backend)
		return 0;
	flow->tuple.saddr = *pc_ct_frontend_addr(backend, flow->tuple.family, ct);
	flow->tuple.sport = backend->frontend_port;
	flow->tuple.dport = ct->dst.nat.port;
	pre_nat = pc_ct_get(&flow->tuple, true).ct;
	flow->tuple.saddr = backend->addr;
	flow->tuple.sport = backend->port;
	flow->tuple.dport = port;
	return pre_nat && pre_nat->flow_id == ct->flow_id && pre_nat->state & PC_CT_PRE_NAT
		   ? pre_nat
		   : 0;
}

/* Replies no longer use the fast path. The verifier checks this function once. */
__noinline int pc_reply_stays(struct pc_flow *flow, const struct pc_ct *ct)
{
	struct pc_ct *pre_nat;

	if (!flow || !ct)
		return 0;
	pre_nat = pc_reply_pre_nat(flow, ct);
	if (pre_nat)
		pre_nat->out &= PC_OUT_UPLINK;
	return 0;
}

/* from_pod: a reply to an external client of a Service. Sets forward_to, unless the stack must see
 * the packet.
 */
static __always_inline void pc_reply_forward(struct __sk_buff *skb, struct pc_flow *flow,
					     const struct pc_ct_match *match)
{
	struct pc_ct *ct = match->at.ct;

	if (!pc_is_sent_out(flow, match) || !pc_external_may_bypass(skb, pc_external_now()))
		return;
	pc_send_out(skb, flow, ct, true);
	if (!ct->out || ct->out == PC_OUT_NEVER)
		pc_reply_stays(flow, ct);
}

/* Whether the entry can learn from this reply, which comes from a pod that may use the fast path.
 */
static __always_inline bool pc_reply_teaches(const struct __sk_buff *skb,
					     const struct pc_flow *flow,
					     const struct pc_ct_match *match)
{
	const struct pc_ct *ct = match->at.ct;

	return match->is_fresh && pc_is_plain(flow) && skb->ingress_ifindex &&
	       ct->dst.ifindex == skb->ingress_ifindex && ct->peers & PC_DECIDED_DST &&
	       ct->out != PC_OUT_NEVER &&
	       (!ct->out || (ct->out & PC_OUT_TIME) != pc_out_time(flow));
}

/* to_uplink: learns the next hop, and whether the client's packets come by this uplink. The first
 * reply makes the next one look up the path. The verifier checks this function once.
 */
__noinline int pc_reply_learn(struct __sk_buff *skb, struct pc_flow *flow, struct pc_ct *ct)
{
	__u8 dmac[PC_MAC_LEN], out, was;
	struct pc_ct *pre_nat;

	if (!flow || !ct)
		return 0;
	out = pc_out_uplink(skb);
	if (!out || bpf_skb_load_bytes(skb, 0, dmac, sizeof(dmac)) || dmac[0] & 1)
		return 0;
	pre_nat = pc_reply_pre_nat(flow, ct);
	if (!pre_nat || (pre_nat->out & PC_OUT_UPLINK) != out) {
		ct->out = 0;
		if (pre_nat)
			pre_nat->out &= PC_OUT_UPLINK;
		return 0;
	}
	__builtin_memcpy(ct->src.mac, dmac, sizeof(ct->src.mac));
	__builtin_memcpy(ct->src.gateway, flow->packet.smac, sizeof(ct->src.gateway));
	was = ct->out & PC_OUT_UPLINK;
	ct->out = out | (pc_out_time(flow) ^ (was == out ? 0 : PC_OUT_TIME));
	pre_nat->out = out | PC_OUT_BOTH;
	return 0;
}
