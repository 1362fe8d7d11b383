/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* external.h - connections of external clients to Services.
 * Gives pc_check_external(), pc_external_known(), pc_external_new(), pc_external_to_endpoint(),
 * pc_to_external().
 *
 * The node that a client comes to selects the node that replies. If it selects itself, the
 * connection has two entries, as a pod's has, with a client that is behind no device of ours.
 * Otherwise it has one entry under the client's tuple, with the other node. Packets are forwarded
 * to that node unchanged, and it handles them as if they had come to it. Why: docs/decisions/0024-*
 */
#pragma once
#include "ct_other_node.h"
#include "endpoints.h"
#include "external_forward.h"
#include "host_end.h"
#include "nat_hooks.h"
#include "external_map.h"
#include "return_path.h"

/* From outside: the source is neither a pod of this node nor the node. Fills flow->src. */
static __always_inline enum drop_reason pc_check_external(struct pc_flow *flow)
{
	pc_endpoint_at(flow->tuple.family, &flow->tuple.saddr, &flow->src);
	if (flow->src.ifindex || pc_is_own_node(flow->tuple.family, &flow->tuple.saddr))
		return PC_DROP_SPOOFED_IP;
	return PC_PASS;
}

/* Connections that the node itself serves, without host policy. Separate functions, as the BPF
 * stack has no room for both entries in one.
 */
__noinline int pc_external_insert(struct pc_flow *flow)
{
	return flow && pc_ct_insert_both(flow, 0, 0);
}

__noinline int pc_external_renew_post_nat(struct pc_flow *flow)
{
	return flow && pc_ct_renew(flow, 0, 0);
}

__noinline int pc_external_put_pre_nat(struct pc_flow *flow)
{
	return flow && pc_ct_put_pre_nat(flow);
}

static __always_inline bool pc_external_renew(struct pc_flow *flow)
{
	return pc_external_renew_post_nat(flow) && pc_external_put_pre_nat(flow);
}

/* The tuple is that of client and endpoint, and the packet is translated. */
static __always_inline enum drop_reason pc_external_to_endpoint(struct __sk_buff *skb,
								struct pc_flow *flow, __u32 state)
{
	int stored;

	pc_endpoint_at(flow->tuple.family, &flow->tuple.daddr, &flow->dst);
	if (state & PC_STATE_HOSTS)
		pc_host_receives(flow);
	if (flow->dst.ifindex)
		return pc_ask_policy(skb, state);
	if (!pc_is_own_node(flow->tuple.family, &flow->tuple.daddr))
		return PC_DROP_NO_NODE; /* no return path from there */
	stored = flow->action.entry_op == PC_ENTRY_RENEW ? pc_external_renew(flow)
							 : pc_external_insert(flow);
	if (!stored)
		return PC_DROP_CT_FULL;
	pc_frag_record(flow);
	return PC_PASS;
}

/* A packet to a Service that opens a connection; nat.backend stays 0 if it is to no Service. This
 * and the next function are separate, as the hook's stack is full.
 */
__noinline int pc_external_new(struct __sk_buff *skb, struct pc_flow *flow, __u32 state)
{
	const struct pc_backend *backend;
	int reason;

	if (!flow)
		return PC_DROP_NO_NODE;
	flow->came_by = pc_came_by(skb);
	reason = pc_service_pick(flow, state);
	if (reason || !flow->nat.backend)
		return reason;
	backend = pc_backend_of(flow->nat.backend);
	if (!backend)
		return PC_DROP_BACKEND_GONE;
	if (backend->node && flow->client == PC_CLIENT_EXTERNAL)
		return pc_other_node_new(flow, backend->node);
	reason = pc_nat_to_backend(skb, flow);
	return reason ? reason : PC_STEP_DECIDE;
}

/* The client now comes by another node: replies go back by that node. */
static __always_inline void pc_external_set_return_node(const struct pc_flow *flow,
							struct pc_ct *pre_nat)
{
	struct pc_ct *back = pc_ct_get(&flow->tuple, true).ct;

	if (!back || back->flow_id != pre_nat->flow_id)
		return;
	pc_ct_set_node(back, flow->action.node);
	if (pc_ct_node(back) == flow->action.node) /* else the next packet tries again */
		pc_ct_set_node(pre_nat, flow->action.node);
}

/* A packet with a pre-NAT entry. The entry is looked up again: the 6.1 verifier rejects map writes
 * through a pointer argument.
 */
__noinline int pc_external_known(struct __sk_buff *skb, struct pc_flow *flow, bool is_fresh)
{
	struct pc_ct_match match = {.is_fresh = is_fresh};
	struct pc_ct *ct;
	const struct pc_backend *backend;
	enum pc_pre_nat pre_nat;
	int reason;

	if (!flow)
		return PC_DROP_NO_NODE;
	match.at = pc_ct_get(&flow->tuple, true);
	ct = match.at.ct;
	if (!ct || !(ct->state & PC_CT_PRE_NAT))
		return PC_STEP_NEW;
	if (ct->state & PC_CT_OTHER_NODE && flow->client == PC_CLIENT_EXTERNAL &&
	    pc_other_node_known(flow, &match))
		return PC_PASS;
	backend = ct->state & PC_CT_OTHER_NODE
		      ? 0
		      : pc_nat_backend(ct->src.nat.backend, flow->tuple.proto);
	if (!backend)
		return PC_STEP_NEW;
	pc_tuple_translate(flow, backend, ct->src.nat.backend, ct->src.nat.port);
	if (pc_ct_node(ct) != flow->action.node)
		pc_external_set_return_node(flow, ct);
	pre_nat = pc_pre_nat_touch(flow, &match, backend);
	if (pre_nat == PC_PRE_NAT_WITHOUT_POST) {
		pc_tuple_pre_nat(&flow->tuple, &flow->nat);
		flow->nat.backend = 0;
		flow->has_established_entry = match.at.is_established;
		return PC_STEP_NEW;
	}
	ct = match.at.ct;
	if (pre_nat || !ct || !pc_external_is_forwarded(skb, flow, ct))
		ct = 0;
	reason = ct ? pc_forward_request(skb, flow, &ct->dst) : PC_PASS;
	if (!reason && !flow->action.forward_to) {
		reason = pc_nat_to_backend(skb, flow);
		if (ct && !reason) /* step by step, if pc_can_rewrite() was false */
			pc_forward(skb, flow, &ct->dst);
	}
	if (reason)
		return reason;
	if (pre_nat == PC_PRE_NAT_STALE) {
		flow->action.entry_op = PC_ENTRY_RENEW;
		return PC_STEP_DECIDE;
	}
	pc_frag_record(flow);
	return PC_PASS;
}

/* An endpoint's reply on its way out becomes the Service's, as the client knows it. Its entry may
 * be stale: the pod's own hook has just decided, and the node itself has no policy.
 * flow->action.node is the node to forward it to; 0: it leaves here.
 */
static __always_inline enum drop_reason pc_to_external(struct __sk_buff *skb, struct pc_flow *flow,
						       struct pc_ct *ct)
{
	const struct pc_backend *backend = pc_nat_backend(ct->dst.nat.backend, flow->tuple.proto);
	const struct pc_addr6 *frontend;

	if (!backend)
		return PC_DROP_BACKEND_GONE;
	frontend = pc_ct_frontend_addr(backend, flow->tuple.family, ct);
	if (pc_ct_note(ct, flow, true))
		pc_pre_nat_note(flow, ct, backend, frontend);
	flow->action.frag_backend = ct->dst.nat.backend | PC_FRAG_REPLY;
	flow->action.node = pc_ct_node(ct);
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	if (!pc_nat_addr(skb, flow, PC_NAT_SRC, &flow->tuple.saddr, frontend) ||
	    !pc_nat_port(skb, flow, PC_NAT_SRC, flow->tuple.sport, backend->frontend_port) ||
	    !pc_nat_port(skb, flow, PC_NAT_DST, flow->tuple.dport, ct->dst.nat.port))
		return PC_DROP_MALFORMED;
	/* With the node, which later fragments need. */
	if (flow->packet.fragment == PC_FRAG_FIRST)
		pc_frag_put(flow, PC_REASM_NONE, ct->dst.ifindex);
	if (pc_is_dsr(backend))
		flow->action.node = 0;
	return PC_PASS;
}
