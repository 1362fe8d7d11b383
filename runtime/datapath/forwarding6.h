/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* forwarding6.h - whether the host forwards IPv6 at all (net.ipv6.conf.all.forwarding). The FIB
 * lookup asks for the setting of the device alone, and the stack for both.
 * Gives pc_forwards_ipv6().
 */
#pragma once
#include "ipsec.h"

/* The kernel's fields that are read, at this kernel's offsets (CO-RE). */
struct ipv6_devconf___pc {
	__s32 forwarding;
} __attribute__((preserve_access_index));
struct netns_ipv6___pc {
	struct ipv6_devconf___pc *devconf_all;
} __attribute__((preserve_access_index));
struct net___pc_ipv6 {
	struct netns_ipv6___pc ipv6;
} __attribute__((preserve_access_index));

/* For a packet at a device of this network namespace. */
static __always_inline bool pc_forwards_ipv6(const struct __sk_buff *ctx)
{
	const struct sk_buff___pc_dev *skb = (const void *)ctx;
	const struct net___pc_ipv6 *net;

	if (!bpf_core_field_exists(struct net___pc_ipv6, ipv6))
		return false;
	if (!bpf_core_type_exists(struct tcx_link___pc)) {
		net = (const void *)BPF_CORE_READ(skb, dev, nd_net.net);
		return BPF_CORE_READ(net, ipv6.devconf_all, forwarding);
	}
	skb = bpf_cast_to_kern_ctx((void *)ctx);
	net = (const void *)skb->dev->nd_net.net;
	return net->ipv6.devconf_all->forwarding;
}
