/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* first_other_node.h - the first packet of a connection between a pod of this node and an end that
 * is not of this node. Gives pc_first_out() and pc_first_in() to first_packet.h.
 */
#pragma once
#include "first_conf.h"
#include "first_path.h"
#include "forward_learn.h"
#include "generation.h"
#include "snat_owner.h"

/* 1 + the place of an uplink that the fast path uses, if nothing else sees what comes in there; 0:
 * the device is none. The node's own packets come by no device (0).
 */
static __always_inline __u8 pc_first_uplink(__u32 device)
{
	const struct pc_first_conf *conf = pc_first_now();
	const struct pc_external *external = pc_external_now();

	return device && conf && conf->other_nodes && external ? pc_uplink_place(external, device)
							       : 0;
}

/* Under SNAT to_uplink learns nothing from answers to such a sender, and would follow no change of
 * the path.
 */
static __always_inline bool pc_first_is_translated(struct pc_flow *flow)
{
	return pc_generation(flow) & PC_STATE_SNAT &&
	       !pc_snat_is_except(flow->tuple.family, &flow->tuple.saddr);
}

/* A pod sends. Redirects the packet to the uplink, whose hook applies SNAT, and otherwise learns
 * the path from it (forward_learn.h). The entry learns here how replies reach the pod. Verified
 * once, on its own, like the next function.
 */
__noinline int pc_first_out(struct __sk_buff *skb, struct pc_flow *flow, struct pc_ct *ct)
{
	struct bpf_fib_lookup there = {}, back = {};
	__u32 mtu = 0;

	if (!flow || !ct || !pc_is_plain(flow) ||
	    !pc_is_host(&flow->tuple.daddr, flow->tuple.family) ||
	    !pc_first_path(skb, flow, &there, skb->ifindex, false) ||
	    !pc_first_uplink(there.ifindex) ||
	    bpf_check_mtu(skb, there.ifindex, &mtu, 0, BPF_MTU_CHK_SEGS) !=
		BPF_MTU_CHK_RET_SUCCESS ||
	    there.mtu_result < mtu || !pc_first_to_pod(skb, flow, &back, there.ifindex, true))
		return 0;
	__builtin_memcpy(ct->src.gateway, back.smac, PC_MAC_LEN);
	__sync_fetch_and_or(&ct->state, PC_CT_CAME_SRC);
	pc_out_by(skb, flow, &there);
	return 0;
}

/* A pod receives: the stack has brought the packet by an uplink. The entry learns that, and the
 * path of replies, which to_uplink learns again from the next look at it (pc_out_again()).
 */
__noinline int pc_first_in(struct __sk_buff *skb, struct pc_flow *flow, struct pc_ct *ct)
{
	struct bpf_fib_lookup back = {};
	__u8 mac[PC_MAC_LEN], place;

	if (!flow || !ct || flow->nat.backend)
		return 0;
	place = pc_first_uplink(skb->ingress_ifindex);
	if (!place || bpf_skb_load_bytes(skb, 0, mac, sizeof(mac)) ||
	    !pc_mac_eq(mac, flow->dst.mac) ||
	    !pc_first_path(skb, flow, &back, flow->dst.ifindex, true) ||
	    back.ifindex != skb->ingress_ifindex || pc_first_is_translated(flow))
		return 0;
	__builtin_memcpy(ct->src.mac, back.dmac, PC_MAC_LEN);
	__builtin_memcpy(ct->src.gateway, back.smac, PC_MAC_LEN);
	__builtin_memcpy(ct->dst.gateway, flow->packet.smac, PC_MAC_LEN);
	ct->out = place | (pc_out_time(flow) ^ PC_OUT_TIME);
	__sync_fetch_and_or(&ct->state, PC_CT_CAME_DST);
	return 0;
}
