/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ipsec.h - whether the node has IPsec policies (`ip xfrm policy`), which only the IP stack
 * applies. While it has one, packets from and to a network do not bypass the stack.
 * Gives pc_has_ipsec(), pc_xdp_has_ipsec().
 */
#pragma once
#include "offload.h"

#define PC_XFRM_DIRECTIONS 3 /* XFRM_POLICY_IN, _OUT, _FWD of <linux/xfrm.h> */
#define PC_XFRM_BLOCK      1 /* XFRM_USERPOLICY_BLOCK */

/* The kernel's fields that are read, at this kernel's offsets (CO-RE). */
struct netns_xfrm___pc {
	__u32 policy_count[PC_XFRM_DIRECTIONS];
	__u8 policy_default[PC_XFRM_DIRECTIONS]; /* for packets that no policy selects */
} __attribute__((preserve_access_index));
struct net___pc {
	struct netns_xfrm___pc xfrm;
} __attribute__((preserve_access_index));
struct net_device___pc {
	struct {
		struct net___pc *net;
	} nd_net;
} __attribute__((preserve_access_index));
struct sk_buff___pc_dev {
	struct net_device___pc *dev;
} __attribute__((preserve_access_index));
struct xdp_rxq_info___pc {
	struct net_device___pc *dev;
} __attribute__((preserve_access_index));
struct xdp_buff___pc {
	struct xdp_rxq_info___pc *rxq;
} __attribute__((preserve_access_index));

static __always_inline bool pc_is_ipsec(const __u32 *count, const __u8 *otherwise)
{
	return count[0] | count[1] | count[2] || otherwise[0] == PC_XFRM_BLOCK ||
	       otherwise[1] == PC_XFRM_BLOCK || otherwise[2] == PC_XFRM_BLOCK;
}

/* By plain loads, as in offload.h. */
static __always_inline bool pc_net_has_ipsec(const struct net___pc *net)
{
	const struct netns_xfrm___pc *xfrm = &net->xfrm;
	const __u32 count[] = {xfrm->policy_count[0], xfrm->policy_count[1], xfrm->policy_count[2]};
	const __u8 otherwise[] = {xfrm->policy_default[0], xfrm->policy_default[1],
				  xfrm->policy_default[2]};

	return pc_is_ipsec(count, otherwise);
}

/* The same where the kernel allows no plain loads. */
static __always_inline bool pc_net_has_ipsec_copied(const struct net___pc *net)
{
	__u32 count[PC_XFRM_DIRECTIONS] = {};
	__u8 otherwise[PC_XFRM_DIRECTIONS] = {};

	bpf_core_read(count, sizeof(count), &net->xfrm.policy_count);
	bpf_core_read(otherwise, sizeof(otherwise), &net->xfrm.policy_default);
	return pc_is_ipsec(count, otherwise);
}

/* A kernel without IPsec has none of the fields. */
static __always_inline bool pc_has_ipsec(const struct __sk_buff *ctx)
{
	const struct sk_buff___pc_dev *skb = (const void *)ctx;

	if (!bpf_core_field_exists(struct net___pc, xfrm))
		return false;
	if (!bpf_core_type_exists(struct tcx_link___pc))
		return pc_net_has_ipsec_copied(BPF_CORE_READ(skb, dev, nd_net.net));
	skb = bpf_cast_to_kern_ctx((void *)ctx);
	return pc_net_has_ipsec(skb->dev->nd_net.net);
}

static __always_inline bool pc_xdp_has_ipsec(const struct xdp_md *ctx)
{
	const struct xdp_buff___pc *frame = (const void *)ctx;

	if (!bpf_core_field_exists(struct net___pc, xfrm))
		return false;
	if (!bpf_core_type_exists(struct tcx_link___pc))
		return pc_net_has_ipsec_copied(BPF_CORE_READ(frame, rxq, dev, nd_net.net));
	frame = bpf_cast_to_kern_ctx((void *)ctx);
	return pc_net_has_ipsec(frame->rxq->dev->nd_net.net);
}
