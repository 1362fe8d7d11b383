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

/* Only what came in by a device has the mark from here: processes of the node may set one. A pod's
 * packet with it is dropped at the pod's hook (pod_marks.h).
 */
static __always_inline bool pc_was_routed(const struct __sk_buff *skb)
{
	return skb->mark == PC_ROUTED_MARK && skb->ingress_ifindex;
}

/* The source and the ports that the packet has by now. False: they are those that the stack has
 * routed it by, and so is the way.
 */
static __always_inline bool pc_way_source(struct __sk_buff *skb, const struct pc_flow *flow,
					  struct bpf_fib_lookup *fib)
{
	struct pc_addr6 source = {};
	__be16 ports[2] = {};

	fib->l4_protocol = flow->t.proto;
	if (pc_fib_has_ports(flow) && bpf_skb_load_bytes(skb, flow->l4, ports, sizeof(ports)))
		return false;
	fib->sport = ports[0];
	fib->dport = ports[1];
	if (flow->t.family == PC_IPV4) {
		if (bpf_skb_load_bytes(skb, PC_IP4_SADDR_AT, &source, 4))
			return false;
		fib->ipv4_src = source.word[0];
	} else {
		if (bpf_skb_load_bytes(skb, PC_IP6_SADDR_AT, &source, sizeof(source)))
			return false;
		__builtin_memcpy(fib->ipv6_src, &source, sizeof(fib->ipv6_src));
	}
	return !pc_addr_eq(&source, &flow->t.saddr) ||
	       (pc_fib_has_ports(flow) && (ports[0] != flow->t.sport || ports[1] != flow->t.dport));
}

/* The device by which the node would send the packet if it were its own; 0: there is none. Of a
 * loopback that may not forward the kernel says just that, and leaves the question as it was: it is
 * asked again of the device that the packet came by.
 */
static __always_inline __u32 pc_way_of(struct __sk_buff *skb, const struct pc_flow *flow)
{
	struct bpf_fib_lookup fib = {.ifindex = PC_LOOPBACK};
	long found;

	if (!pc_way_source(skb, flow, &fib))
		return 0;
	if (flow->t.family == PC_IPV4) {
		fib.family = PC_FIB_IPV4;
		fib.ipv4_dst = flow->t.daddr.word[0];
	} else {
		fib.family = PC_FIB_IPV6;
		__builtin_memcpy(fib.ipv6_dst, &flow->t.daddr, sizeof(fib.ipv6_dst));
	}
	found = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	if (found == BPF_FIB_LKUP_RET_FWD_DISABLED) {
		fib.ifindex = skb->ingress_ifindex;
		found = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	}
	return pc_fib_device(&fib, found);
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
