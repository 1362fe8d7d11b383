/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* came_in.h - whether the node forwards a packet that leaves, or has generated it.
 * Gives pc_came_in(), pc_came_in_by().
 */
#pragma once
#include <linux/bpf.h>
#include <stdbool.h>

/* In tc_index: from_netkit.h redirected the packet before the kernel noted the device that it came
 * in by. A pod can set it, too. Its packets are forwarded in any case.
 */
#define PC_OF_NETKIT 0x7063

static __always_inline bool pc_is_of_netkit(const struct __sk_buff *skb)
{
	return !skb->ingress_ifindex && skb->tc_index == PC_OF_NETKIT;
}

static __always_inline bool pc_came_in(const struct __sk_buff *skb)
{
	return skb->ingress_ifindex || pc_is_of_netkit(skb);
}

/* Whether it came in by that device, which is not 0. from_netkit.h has compared the device of its
 * packets with their sender's.
 */
static __always_inline bool pc_came_in_by(const struct __sk_buff *skb, __u32 device)
{
	return skb->ingress_ifindex == device || pc_is_of_netkit(skb);
}
