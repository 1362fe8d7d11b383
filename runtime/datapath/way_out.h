/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* way_out.h - the uplink by which a reply of a Service leaves, if there are several.
 * Gives pc_way_out() and pc_was_routed() to to_uplink. The stack routes the reply under the
 * endpoint's address. Rules by source (`ip rule from POD`) may lead that address to another device
 * than the Service's, whose network drops it: docs/decisions/0034-behind-another-cni.md
 */
#pragma once
#include "device_to.h"
#include "nat.h"
#include "tunnel.h"

/* Only a packet with an ingress device has the mark from here: processes of the node may set it
 * too. The pod's hook drops a pod's packet with it (pod_marks.h).
 */
static __always_inline bool pc_was_routed(const struct __sk_buff *skb)
{
	return skb->mark == PC_ROUTED_MARK && skb->ingress_ifindex;
}

/* Reads the packet's present source and ports. False: they equal those by which the stack routed
 * the packet, so the path is right.
 */
static __always_inline bool pc_way_source(struct __sk_buff *skb, const struct pc_flow *flow,
					  struct bpf_fib_lookup *fib)
{
	struct pc_addr6 source = {};
	__be16 ports[2] = {};

	fib->l4_protocol = flow->tuple.proto;
	if (pc_fib_has_ports(flow) &&
	    bpf_skb_load_bytes(skb, flow->packet.l4, ports, sizeof(ports)))
		return false;
	fib->sport = ports[0];
	fib->dport = ports[1];
	if (flow->tuple.family == PC_IPV4) {
		if (bpf_skb_load_bytes(skb, PC_IP4_SADDR_AT, &source, 4))
			return false;
		fib->ipv4_src = source.word[0];
	} else {
		if (bpf_skb_load_bytes(skb, PC_IP6_SADDR_AT, &source, sizeof(source)))
			return false;
		__builtin_memcpy(fib->ipv6_src, &source, sizeof(fib->ipv6_src));
	}
	return !pc_addr_eq(&source, &flow->tuple.saddr) ||
	       (pc_fib_has_ports(flow) &&
		(ports[0] != flow->tuple.sport || ports[1] != flow->tuple.dport));
}

/* The device by which the node would send the packet as its own; 0: none. If loopback may not
 * forward, the kernel says only that, and leaves the lookup unchanged: the lookup then runs again
 * for the device that the packet came by.
 */
static __always_inline __u32 pc_way_of(struct __sk_buff *skb, const struct pc_flow *flow)
{
	struct bpf_fib_lookup fib = {.ifindex = PC_LOOPBACK};
	long found;

	if (!pc_way_source(skb, flow, &fib))
		return 0;
	if (flow->tuple.family == PC_IPV4) {
		fib.family = PC_FIB_IPV4;
		fib.ipv4_dst = flow->tuple.daddr.word[0];
	} else {
		fib.family = PC_FIB_IPV6;
		__builtin_memcpy(fib.ipv6_dst, &flow->tuple.daddr, sizeof(fib.ipv6_dst));
	}
	found = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	if (found == BPF_FIB_LKUP_RET_FWD_DISABLED) {
		fib.ifindex = skb->ingress_ifindex;
		found = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	}
	return pc_fib_device(&fib, found);
}

/* The device for the packet; 0: it leaves as routed. It also does if it is too large for the other
 * device, or is the node's own. A separate function, for its own stack frame.
 */
__noinline int pc_way_out(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_external *external = pc_external_now();
	__u32 device, mtu = 0;

	if (!flow || !external || !external->uplink[1] || !skb->ingress_ifindex)
		return 0;
	device = pc_way_of(skb, flow);
	if (!device || device == skb->ifindex || !pc_is_uplink(external, device))
		return 0;
	return bpf_check_mtu(skb, device, &mtu, 0, BPF_MTU_CHK_SEGS) == BPF_MTU_CHK_RET_SUCCESS
		   ? device
		   : 0;
}
