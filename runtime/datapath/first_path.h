/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* first_path.h - where the stack would route a connection's first packet and its reply.
 * Gives pc_first_path(), pc_first_to_pod(), pc_first_is_own().
 */
#pragma once
#include "ct_pre_nat.h"
#include "forward_out.h"

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

/* The path as the stack would find it (pc_path()), in `fib`; false: there is none, or the neighbour
 * is unknown.
 */
static __always_inline bool pc_first_path(struct __sk_buff *skb, const struct pc_flow *flow,
					  struct bpf_fib_lookup *fib, __u32 device, bool is_back)
{
	return pc_first_tos(skb, flow, fib) &&
	       pc_path(skb, flow, fib, device, is_back) == BPF_FIB_LKUP_RET_SUCCESS;
}

/* Whether the FIB leads from the device to a pod of this node. Sets fib->smac. */
static __always_inline bool pc_first_to_pod(struct __sk_buff *skb, const struct pc_flow *flow,
					    struct bpf_fib_lookup *fib, __u32 device, bool is_back)
{
	const struct pc_endpoint *to = is_back ? &flow->src : &flow->dst;

	return pc_first_path(skb, flow, fib, device, is_back) && fib->ifindex == to->ifindex &&
	       pc_mac_eq(fib->dmac, to->mac);
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
