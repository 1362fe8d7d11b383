/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* nat_forward.h - the fast path of connections to Services with an endpoint on this node.
 * Gives pc_forward_reply() to from_pod and pc_forward_seen() to to_pod. Packets to a Service are
 * redirected where they are translated (nat_hooks.h). docs/decisions/0023-services.md says which
 * entry holds what.
 */
#pragma once
#include "nat_hooks.h"
#include "external_map.h"

/* A reply whose client is behind a device of this node. It is translated and recorded here, as
 * the client's to_pod does not see it. If the stack must see the reply, it passes untranslated.
 * Verified once, on its own.
 */
__noinline int pc_forward_reply(struct __sk_buff *skb, struct pc_flow *flow, struct pc_ct *ct)
{
	const struct pc_addr6 *frontend;
	const struct pc_backend *backend;
	struct pc_rewrite what;

	if (!flow || !ct || !pc_can_rewrite(flow) || !pc_may_forward(skb, flow, &ct->src))
		return PC_PASS;
	backend = pc_nat_backend(ct->dst.nat.backend, flow->tuple.proto);
	if (!backend)
		return PC_DROP_BACKEND_GONE;
	frontend = pc_ct_frontend_addr(backend, flow->tuple.family, ct);
	what = (struct pc_rewrite){
	    .from = &flow->tuple.saddr,
	    .to = frontend,
	    .sport = backend->frontend_port,
	    .dport = ct->dst.nat.port,
	    .is_source = true,
	};
	if (!pc_rewrite(skb, flow, &what, &ct->src))
		return PC_DROP_MALFORMED;
	if (pc_ct_note(ct, flow, true))
		pc_pre_nat_note(flow, ct, backend, frontend);
	return PC_PASS;
}

/* The pre-NAT entry holds the path to an endpoint. Restores the translated tuple afterwards. */
__noinline int pc_forward_learn_pre_nat(struct pc_flow *flow, struct pc_ct *ct)
{
	const struct pc_backend *backend;
	struct pc_ct *pre_nat;
	__be16 port;

	if (!flow || !ct)
		return 0;
	backend = pc_backend_of(ct->dst.nat.backend);
	if (!backend)
		return 0;
	port = flow->tuple.sport;
	flow->tuple.daddr = *pc_ct_frontend_addr(backend, flow->tuple.family, ct);
	flow->tuple.dport = backend->frontend_port;
	flow->tuple.sport = ct->dst.nat.port;
	pre_nat = pc_ct_get(&flow->tuple, true).ct;
	if (pre_nat && pre_nat->flow_id == ct->flow_id && pre_nat->state & PC_CT_PRE_NAT) {
		__builtin_memcpy(pre_nat->dst.gateway, flow->packet.smac, PC_MAC_LEN);
		__sync_fetch_and_or(&pre_nat->state, PC_CT_CAME_DST);
		__sync_fetch_and_or(&ct->state, PC_CT_CAME_DST);
	}
	flow->tuple.daddr = backend->addr;
	flow->tuple.dport = backend->port;
	flow->tuple.sport = port;
	return 0;
}

/* to_pod: a packet of a known connection passes. */
static __always_inline void pc_forward_seen(struct __sk_buff *skb, struct pc_flow *flow,
					    const struct pc_ct_match *match)
{
	if (!pc_forward_teaches(skb, match))
		return;
	if (match->at.ct->state & PC_CT_NAT && !match->is_reply)
		pc_forward_learn_pre_nat(flow, match->at.ct);
	else
		pc_forward_learn(flow, match);
}
