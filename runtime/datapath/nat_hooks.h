/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* nat_hooks.h - what the hooks do to packets to Services, and to the replies.
 * Gives pc_to_service() for from_pod, pc_from_service() for to_pod.
 *
 * The client's hooks translate, on the client's node. They translate to the endpoint before routing
 * and policy see the packet, and back when the reply is about to reach the client. So replies of
 * all endpoints pass one place, and the stack sees the same two addresses in both directions.
 */
#pragma once
#include "forward_out.h"
#include "frag_sender.h"
#include "hairpin_addr.h"
#include "nat.h"
#include "pre_nat.h"
#include "offload.h"
#include "rewrite.h"
#include "sender.h"

/* The endpoint of a translated connection, if it still exists. An endpoint that takes no new
 * connections continues only established TCP and SCTP connections.
 */
static __always_inline const struct pc_backend *pc_nat_backend(__u32 id, __u8 proto)
{
	const struct pc_backend *backend = pc_backend_of(id);

	if (backend && backend->state & PC_BACKEND_NO_NEW && proto == IPPROTO_UDP)
		return 0;
	return backend;
}

/* Writes the flow's translated tuple into its packet. */
static __always_inline enum drop_reason pc_nat_to_backend(struct __sk_buff *skb,
							  struct pc_flow *flow)
{
	flow->action.frag_backend = flow->nat.backend;
	if (pc_nat_addr(skb, flow, PC_NAT_DST, &flow->nat.daddr, &flow->tuple.daddr) &&
	    pc_nat_port(skb, flow, PC_NAT_DST, flow->nat.dport, flow->tuple.dport) &&
	    pc_nat_port(skb, flow, PC_NAT_SRC, flow->nat.sport, flow->tuple.sport))
		return PC_PASS;
	return PC_DROP_MALFORMED;
}

/* A packet to a Service that opens a connection. Afterwards it is a packet to an endpoint, without
 * an entry.
 */
static __always_inline int pc_service_new(struct __sk_buff *skb, struct pc_flow *flow,
					  struct pc_ct_match *match, __u32 state)
{
	int step = pc_service_pick(flow, state);

	if (step || !flow->nat.backend)
		return step;
	match->at.ct = 0;
	return pc_nat_to_backend(skb, flow);
}

/* Translates a packet to a Service and redirects it, in one store. */
static __always_inline int pc_rewrite_request(struct __sk_buff *skb, struct pc_flow *flow,
					      const struct pc_ct_end *to)
{
	struct pc_rewrite what = {
	    .from = &flow->nat.daddr,
	    .to = &flow->tuple.daddr,
	    .sport = flow->tuple.sport,
	    .dport = flow->tuple.dport,
	};

	return pc_rewrite(skb, flow, &what, to) ? PC_PASS : PC_DROP_MALFORMED;
}

/* Sets forward_to (fast path) if the endpoint is behind a device of this node, and the stack need
 * not see the packet. The verifier checks this function once.
 */
__noinline int pc_forward_request(struct __sk_buff *skb, struct pc_flow *flow,
				  const struct pc_ct_end *to)
{
	if (!flow || !to || !pc_can_rewrite(flow) || !pc_may_forward(skb, flow, to))
		return PC_PASS;
	return pc_rewrite_request(skb, flow, to);
}

/* A packet of a connection to a Service. If it does not pass here, the policy decides the
 * translated packet: as a stale connection, or as a new connection.
 */
static __always_inline int pc_service_known(struct __sk_buff *skb, struct pc_flow *flow,
					    struct pc_ct_match *match, __u32 state, bool *is_done)
{
	struct pc_ct *ct = match->at.ct;
	const struct pc_backend *backend =
	    pc_nat_backend(pc_ct_nat_of(ct)->backend, flow->tuple.proto);
	enum drop_reason reason;
	enum pc_pre_nat pre_nat;

	if (!backend || !pc_is_node_still(flow, ct)) {
		match->at.ct = 0;
		return pc_service_new(skb, flow, match, state);
	}
	if (pc_addr_eq(&backend->addr, &flow->tuple.saddr))
		return PC_STEP_HAIRPIN;
	reason = pc_check_entry_sender(flow, &ct->src);
	if (reason && match->is_fresh)
		return reason;
	pc_tuple_translate(flow, backend, pc_ct_nat_of(ct)->backend, pc_ct_nat_of(ct)->port);
	pre_nat = pc_pre_nat_touch(flow, match, backend);
	if (pre_nat == PC_PRE_NAT_WITHOUT_POST) {
		pc_tuple_pre_nat(&flow->tuple, &flow->nat);
		flow->nat.backend = 0;
		flow->has_established_entry = match->at.is_established;
		match->at.ct = 0;
		return pc_service_new(skb, flow, match, state);
	}
	*is_done = pre_nat == PC_PRE_NAT_PASSED;
	match->is_fresh = *is_done;
	if (*is_done && match->at.ct && pc_is_forwarded(match)) {
		reason = pc_forward_request(skb, flow, &match->at.ct->dst);
		if (reason || flow->action.forward_to)
			return reason;
	}
	reason = pc_nat_to_backend(skb, flow);
	if (!reason && *is_done) {
		pc_frag_passed(flow);
		if (match->at.ct && pc_is_sent_out(flow, match))
			pc_send_out(skb, flow, match->at.ct, false);
	}
	return reason;
}

/* From a pod, when there are Services. *is_done: the connection is known, and nothing is left to
 * do. Otherwise the flow looks as if the pod had sent to the endpoint. An untranslated connection
 * that was answered continues untranslated: another program may have translated it.
 */
static __always_inline int pc_to_service(struct __sk_buff *skb, struct pc_flow *flow,
					 struct pc_ct_match *match, __u32 state, bool *is_done)
{
	struct pc_ct *ct = match->at.ct;

	if (ct && ct->state & PC_CT_PRE_NAT) {
		if (match->is_reply)
			return PC_DROP_SPOOFED_IP; /* an endpoint that claims to be the Service */
		return pc_service_known(skb, flow, match, state, is_done);
	}
	if (ct && (match->is_reply || ct->state & PC_CT_NAT ||
		   (ct->state & PC_CT_REPLIED &&
		    !(flow->packet.is_opening && flow->tuple.proto == IPPROTO_TCP)))) {
		if (match->is_reply && pc_is_routed(ct))
			return PC_STEP_ROUTE_BACK;
		if (match->is_reply || !(ct->state & PC_CT_NAT))
			return pc_is_hairpin_reply(ct, &flow->tuple) ? PC_STEP_HAIRPIN : PC_PASS;
		/* To the endpoint itself, from a port that the pod uses for the Service. */
		if (!(ct->state & PC_CT_DENIED) &&
		    pc_nat_backend(ct->dst.nat.backend, flow->tuple.proto))
			return PC_DROP_NAT_TAKEN;
		match->at.ct = 0;
	}
	if (flow->packet.fragment == PC_FRAG_LATER || !pc_l4_header(&flow->tuple) ||
	    pc_is_icmp(&flow->tuple))
		return PC_PASS;
	return pc_service_new(skb, flow, match, state);
}

/* Copies changes by a reply to the pre-NAT entry; `frontend` is the address that the client uses.
 * Restores the tuple afterwards: a copy would not fit the hook's stack.
 */
static __always_inline void pc_pre_nat_note(struct pc_flow *flow, const struct pc_ct *ct,
					    const struct pc_backend *backend,
					    const struct pc_addr6 *frontend)
{
	__be16 port = flow->tuple.dport;
	struct pc_ct *pre_nat;

	flow->tuple.saddr = *frontend;
	flow->tuple.sport = backend->frontend_port;
	flow->tuple.dport = ct->dst.nat.port;
	pre_nat = pc_ct_get(&flow->tuple, false).ct;
	if (pre_nat && pre_nat->flow_id == ct->flow_id)
		pc_ct_note(pre_nat, flow, true);
	flow->tuple.saddr = backend->addr;
	flow->tuple.sport = backend->port;
	flow->tuple.dport = port;
}

/* To a pod, when there are Services: a reply of an endpoint becomes a reply of the Service. The
 * tuple stays, as the entry is found under it.
 */
static __always_inline enum drop_reason pc_from_service(struct __sk_buff *skb, struct pc_flow *flow,
							const struct pc_ct_match *match,
							bool from_node)
{
	struct pc_ct *ct = match->at.ct;
	const struct pc_backend *backend;
	enum drop_reason reason;

	if (!ct || !(ct->state & PC_CT_NAT))
		return PC_PASS;
	if (ct->state & PC_CT_PRE_NAT)
		return PC_DROP_SPOOFED_IP; /* only this hook writes the Service's source */
	if (!match->is_reply)
		return PC_PASS;
	/* Packets of other senders must not end the connection. */
	reason =
	    from_node ? PC_PASS : pc_check_ingress_device(skb, flow, pc_ct_sender(match)->ifindex);
	if (reason && match->is_fresh)
		return reason;
	backend = pc_nat_backend(ct->dst.nat.backend, flow->tuple.proto);
	if (!backend)
		return PC_DROP_BACKEND_GONE;
	pc_client_knows(flow, backend, ct);
	if (match->is_fresh && pc_ct_note(ct, flow, true))
		pc_pre_nat_note(flow, ct, backend, &flow->nat.daddr);
	flow->action.frag_backend = ct->dst.nat.backend | PC_FRAG_REPLY;
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	if (pc_nat_addr(skb, flow, PC_NAT_SRC, &flow->tuple.saddr, &flow->nat.daddr) &&
	    pc_nat_port(skb, flow, PC_NAT_SRC, flow->tuple.sport, backend->frontend_port) &&
	    pc_nat_port(skb, flow, PC_NAT_DST, flow->tuple.dport, ct->dst.nat.port))
		return PC_PASS;
	return PC_DROP_MALFORMED;
}
