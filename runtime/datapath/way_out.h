/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* way_out.h - by which uplink an answer of a Service leaves, where there are several.
 * Gives pc_way_out() and pc_was_routed() to to_uplink. The stack has routed the answer under the
 * endpoint's address, and rules by source (`ip rule from POD`) may lead that by another device than
 * the Service's address, whose network drops it there: docs/decisions/0034-behind-another-cni.md
 */
#pragma once
#include "device_to.h"
#include "nat.h"
#include "tunnel.h"

/* On an answer that was given to another uplink, which asks nothing more about it. */
#define PC_ROUTED_MARK 0x70635223

#define PC_LOOPBACK 1 /* its device, as the node's own packets are routed */

/* Only what came in by a device has the mark from here: processes of the node may set one. */
static __always_inline bool pc_was_routed(const struct __sk_buff *skb)
{
	return skb->mark == PC_ROUTED_MARK && skb->ingress_ifindex;
}

/* The device by which the node would send the packet if it were its own, as it is by now; 0: there
 * is none, or its source is the one that the stack has routed it by.
 */
static __always_inline __u32 pc_way_of(struct __sk_buff *skb, const struct pc_flow *flow)
{
	struct bpf_fib_lookup fib = {.ifindex = PC_LOOPBACK, .l4_protocol = flow->t.proto};
	struct pc_addr6 source = {};
	long found;

	if (flow->t.family == PC_IPV4) {
		if (bpf_skb_load_bytes(skb, PC_IP4_SADDR_AT, &source, 4))
			return 0;
		fib.family = PC_FIB_IPV4;
		fib.ipv4_src = source.word[0];
		fib.ipv4_dst = flow->t.daddr.word[0];
	} else {
		if (bpf_skb_load_bytes(skb, PC_IP6_SADDR_AT, &source, sizeof(source)))
			return 0;
		fib.family = PC_FIB_IPV6;
		__builtin_memcpy(fib.ipv6_src, &source, sizeof(fib.ipv6_src));
		__builtin_memcpy(fib.ipv6_dst, &flow->t.daddr, sizeof(fib.ipv6_dst));
	}
	if (pc_addr_eq(&source, &flow->t.saddr))
		return 0;
	found = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	return found == BPF_FIB_LKUP_RET_SUCCESS || found == BPF_FIB_LKUP_RET_NO_NEIGH ? fib.ifindex
										       : 0;
}

/* The device to give the packet to; 0: it leaves as it was routed, which it also does where it is
 * too large for the other one, or the node's own. A function of its own for its stack.
 */
__noinline int pc_way_out(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_outside *outside = pc_outside_now();
	__u32 device, mtu = 0;

	if (!flow || !outside || !outside->uplink[1] || !skb->ingress_ifindex)
		return 0;
	device = pc_way_of(skb, flow);
	if (!device || device == skb->ifindex || !pc_is_uplink(outside, device))
		return 0;
	return bpf_check_mtu(skb, device, &mtu, 0, BPF_MTU_CHK_SEGS) == BPF_MTU_CHK_RET_SUCCESS
		   ? device
		   : 0;
}
