/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* first_packet.h - the first packet of a connection between two pods of this node, on the fast
 * path. Gives pc_forward_first(). The policy has allowed the connection, and its entry is stored.
 * The stack would only route the packet: the FIB leads to the receiver's device and MAC, and back
 * to the sender's, and nothing else sees packets on that way. Why:
 * docs/decisions/0060-first-packets-past-the-stack.md
 */
#pragma once
#include "ct_pre_nat.h"
#include "forward_out.h"
#include "forwarding6.h"
#include "netfilter.h"

/* Type of service, or traffic class and flow label: routing rules may read it. */
static __always_inline bool pc_first_tos(struct __sk_buff *skb, const struct pc_flow *flow,
					 struct bpf_fib_lookup *fib)
{
	__u8 head[4];

	if (bpf_skb_load_bytes(skb, ETH_HLEN, head, sizeof(head)))
		return false;
	fib->flowinfo = 0;
	if (flow->tuple.family == PC_IPV4)
		fib->tos = head[1];
	else
		fib->flowinfo = *(__be32 *)head & bpf_htonl(0x0fffffff);
	return true;
}

/* Whether the FIB leads from one end's device to the other end's device and MAC. Sets fib->smac. */
static __always_inline bool pc_first_route(struct __sk_buff *skb, const struct pc_flow *flow,
					   struct bpf_fib_lookup *fib, bool is_back)
{
	const struct pc_endpoint *from = is_back ? &flow->dst : &flow->src;
	const struct pc_endpoint *to = is_back ? &flow->src : &flow->dst;
	const struct pc_addr6 *saddr = is_back ? &flow->tuple.daddr : &flow->tuple.saddr;
	const struct pc_addr6 *daddr = is_back ? &flow->tuple.saddr : &flow->tuple.daddr;

	if (!pc_first_tos(skb, flow, fib))
		return false;
	fib->ifindex = from->ifindex;
	fib->l4_protocol = flow->tuple.proto;
	fib->sport = is_back ? flow->tuple.dport : flow->tuple.sport;
	fib->dport = is_back ? flow->tuple.sport : flow->tuple.dport;
	fib->tot_len = 0;
	if (flow->tuple.family == PC_IPV4) {
		fib->family = PC_OUT_IPV4;
		fib->ipv4_src = saddr->word[0];
		fib->ipv4_dst = daddr->word[0];
	} else {
		fib->family = PC_OUT_IPV6;
		__builtin_memcpy(fib->ipv6_src, saddr, sizeof(fib->ipv6_src));
		__builtin_memcpy(fib->ipv6_dst, daddr, sizeof(fib->ipv6_dst));
	}
	return bpf_fib_lookup(skb, fib, sizeof(*fib), 0) == BPF_FIB_LKUP_RET_SUCCESS &&
	       fib->ifindex == to->ifindex && pc_mac_eq(fib->dmac, to->mac);
}

/* Sets the gateways' MACs, to the receiver in `to` and to the sender in the entry. Verified once,
 * on its own, like the functions below.
 */
__noinline int pc_first_routes(struct __sk_buff *skb, struct pc_flow *flow, struct pc_ct *ct,
			       struct pc_ct_end *to)
{
	struct bpf_fib_lookup fib = {};

	if (!flow || !ct || !to || !pc_first_route(skb, flow, &fib, true))
		return false;
	__builtin_memcpy(ct->src.gateway, fib.smac, PC_MAC_LEN);
	if (!pc_first_route(skb, flow, &fib, false))
		return false;
	to->ifindex = flow->dst.ifindex;
	__builtin_memcpy(to->mac, flow->dst.mac, PC_MAC_LEN);
	__builtin_memcpy(to->gateway, fib.smac, PC_MAC_LEN);
	return true;
}

/* Of a connection to a Service the pre-NAT entry holds the path to the endpoint, and both entries
 * must say so (pre_nat.h). False if it is gone.
 */
static __always_inline bool pc_first_learn_pre_nat(const struct pc_flow *flow,
						   const struct pc_ct *ct,
						   const struct pc_ct_end *to)
{
	struct pc_tuple *tuple = pc_pre_nat_of(flow);
	struct pc_ct *pre_nat = tuple ? pc_ct_get(tuple, true).ct : 0;

	if (!pre_nat || pre_nat->flow_id != ct->flow_id || !(pre_nat->state & PC_CT_PRE_NAT))
		return false;
	__builtin_memcpy(pre_nat->dst.gateway, to->gateway, PC_MAC_LEN);
	__sync_fetch_and_or(&pre_nat->state, PC_CT_CAME_DST);
	return true;
}

/* The entries know the path in both directions from here on. */
__noinline int pc_first_learn(const struct pc_flow *flow, struct pc_ct *ct,
			      const struct pc_ct_end *to)
{
	if (!flow || !ct || !to)
		return false;
	if (!flow->nat.backend)
		__builtin_memcpy(ct->dst.gateway, to->gateway, PC_MAC_LEN);
	else if (!pc_first_learn_pre_nat(flow, ct, to))
		return false;
	__sync_fetch_and_or(&ct->state, PC_CT_CAME);
	return true;
}

/* Whether the entry is the one that the policy program has stored. Another CPU may have replaced
 * it: by one of the opposite direction, or of a packet that was translated otherwise.
 */
static __always_inline bool pc_first_is_own(const struct pc_ct_at *at, const struct pc_flow *flow)
{
	const struct pc_ct *ct = at->ct;

	return at->back == ct->back && ct->epoch == flow->epoch && !(ct->state & PC_CT_CAME) &&
	       !(ct->state & PC_CT_NAT) == !flow->nat.backend && pc_ct_is_translated_as(ct, flow);
}

/* The device to whose peer the packet is redirected; 0: it takes the stack path, unchanged. */
static __always_inline __u32 pc_forward_first(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_ct_end to = {.ifindex = flow->dst.ifindex};
	struct pc_ct_at at;

	if (skb->mark || !pc_may_forward(skb, flow, &to) ||
	    pc_has_netfilter(skb, flow->tuple.family) || pc_has_ipsec(skb) ||
	    (flow->tuple.family == PC_IPV6 && !pc_forwards_ipv6(skb)))
		return 0;
	at = pc_ct_get(&flow->tuple, true);
	if (!at.ct || !pc_first_is_own(&at, flow) || !pc_first_routes(skb, flow, at.ct, &to) ||
	    !pc_readdress(skb, flow, &to))
		return 0;
	pc_first_learn(flow, at.ct, &to);
	return to.ifindex;
}
