/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* forward_learn.h - what to_uplink learns from packets of pods, for forward_out.h.
 * Gives pc_out_teaches(), pc_out_learn().
 */
#pragma once
#include "forward_out.h"
#include "ipsec.h"
#include "node_port.h"

/* Whether the entry can learn from this packet of a known connection: it comes from a pod that may
 * use the fast path, and goes to an end that is not of this node. Replies of Services to external
 * clients leave with another tuple.
 */
static __always_inline bool pc_out_teaches(const struct __sk_buff *skb, const struct pc_flow *flow,
					   const struct pc_ct_match *match)
{
	const struct pc_ct *ct = match->at.ct;

	return match->is_fresh && skb->ingress_ifindex && ct->peers & pc_out_sender(match) &&
	       pc_ct_sender(match)->ifindex == skb->ingress_ifindex &&
	       !pc_ct_receiver(match)->ifindex &&
	       !(ct->state & (PC_CT_NODE | PC_CT_PRE_NAT | PC_CT_OTHER_NODE)) &&
	       !(ct->state & PC_CT_NAT && match->is_reply) && ct->out != PC_OUT_NEVER &&
	       (!ct->out || (ct->out & PC_OUT_TIME) != pc_out_time(flow));
}

/* 1 + the place of the device in `fast_path_uplink`; 0: it has none. */
static __always_inline __u8 pc_uplink_place(const struct pc_external *external, __u32 device)
{
	for (int i = 0; i < PC_UPLINKS; i++)
		if (external->fast_path_uplink[i] == device)
			return i + 1;
	return 0;
}

/* The same for the device that the packet leaves by; 0 also if a mark routed the packet here, as
 * the FIB lookup for later packets does not know that mark, and if the node has IPsec policies.
 */
static __always_inline __u8 pc_out_uplink(const struct __sk_buff *skb)
{
	const struct pc_external *external = pc_external_now();

	return external && !(skb->mark & external->marks) && !pc_has_ipsec(skb)
		   ? pc_uplink_place(external, skb->ifindex)
		   : 0;
}

/* For a connection to a Service the pre-NAT entry holds the path. Restores the translated tuple.
 */
static __always_inline struct pc_ct *pc_out_pre_nat(struct pc_flow *flow, const struct pc_ct *ct)
{
	const struct pc_backend *backend = pc_backend_of(ct->dst.nat.backend);
	__be16 port = flow->tuple.sport;
	struct pc_ct *pre_nat;

	if (!backend)
		return 0;
	flow->tuple.daddr = *pc_ct_frontend_addr(backend, flow->tuple.family, ct);
	flow->tuple.dport = backend->frontend_port;
	flow->tuple.sport = ct->dst.nat.port;
	pre_nat = pc_ct_get(&flow->tuple, true).ct;
	flow->tuple.daddr = backend->addr;
	flow->tuple.dport = backend->port;
	flow->tuple.sport = port;
	return pre_nat && pre_nat->flow_id == ct->flow_id && pre_nat->state & PC_CT_PRE_NAT
		   ? pre_nat
		   : 0;
}

/* The first packet makes the next one look up the path; later packets note the time of a lookup. */
__noinline int pc_out_learn(struct __sk_buff *skb, struct pc_flow *flow, struct pc_ct *ct,
			    bool is_reply, bool is_unchanged)
{
	struct pc_ct *of = ct;
	struct pc_ct_end *to;
	__u8 dmac[PC_MAC_LEN], out;

	if (!flow || !ct)
		return 0;
	out = pc_out_uplink(skb);
	if (!out || bpf_skb_load_bytes(skb, 0, dmac, sizeof(dmac)) || dmac[0] & 1)
		return 0;
	if (ct->state & PC_CT_NAT)
		of = pc_out_pre_nat(flow, ct);
	if (!of)
		return 0;
	to = is_reply ? &of->src : &of->dst;
	if (to->ifindex)
		return 0;
	__builtin_memcpy(to->mac, dmac, sizeof(to->mac));
	__builtin_memcpy(to->gateway, flow->packet.smac, sizeof(to->gateway));
	out |= pc_out_time(flow) ^ ((of->out & PC_OUT_UPLINK) == out ? 0 : PC_OUT_TIME);
	ct->out = out;
	of->out = out;
	if (is_unchanged)
		__sync_fetch_and_or(&of->state, PC_CT_LEAVES);
	return 0;
}
