/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* device_to.h - the device by which the host's IP stack would send a packet.
 * Gives pc_device_to(), pc_device_from(), pc_is_to_own(), pc_is_uplink().
 */
#pragma once
#include "external_map.h"
#include "parse_l4.h"

#define PC_FIB_IPV4 2 /* AF_INET, AF_INET6 of <sys/socket.h>, which is not for BPF */
#define PC_FIB_IPV6 10
#define PC_LOOPBACK 1 /* ifindex of lo, for FIB lookups as for the node's own packets */

/* Whether routing rules on ports apply: the stack reads no ports of fragments, and an ICMP message
 * has none.
 */
static __always_inline bool pc_fib_has_ports(const struct pc_flow *flow)
{
	return !flow->packet.fragment && pc_l4_header(&flow->tuple) && !pc_is_icmp(&flow->tuple);
}

/* The device that was found; 0: none. */
static __always_inline __u32 pc_fib_device(const struct bpf_fib_lookup *fib, long found)
{
	return found == BPF_FIB_LKUP_RET_SUCCESS || found == BPF_FIB_LKUP_RET_NO_NEIGH
		   ? fib->ifindex
		   : 0;
}

/* The FIB lookup of the path to the flow's destination, or with `back` to its source, for a packet
 * that comes in by the device `from`.
 */
static __always_inline struct bpf_fib_lookup pc_fib_from(__u32 from_device,
							 const struct pc_flow *flow, bool back)
{
	struct bpf_fib_lookup fib = {.ifindex = from_device};
	const struct pc_addr6 *from = back ? &flow->tuple.daddr : &flow->tuple.saddr;
	const struct pc_addr6 *to = back ? &flow->tuple.saddr : &flow->tuple.daddr;

	fib.l4_protocol = flow->tuple.proto;
	if (pc_fib_has_ports(flow)) {
		fib.sport = back ? flow->tuple.dport : flow->tuple.sport;
		fib.dport = back ? flow->tuple.sport : flow->tuple.dport;
	}
	if (flow->tuple.family == PC_IPV4) {
		fib.family = PC_FIB_IPV4;
		fib.ipv4_src = from->word[0];
		fib.ipv4_dst = to->word[0];
	} else {
		fib.family = PC_FIB_IPV6;
		__builtin_memcpy(fib.ipv6_src, from, sizeof(fib.ipv6_src));
		__builtin_memcpy(fib.ipv6_dst, to, sizeof(fib.ipv6_dst));
	}
	return fib;
}

static __always_inline struct bpf_fib_lookup pc_fib_of(const struct __sk_buff *skb,
						       const struct pc_flow *flow, bool back)
{
	return pc_fib_from(skb->ifindex, flow, back);
}

/* The device that leads to the flow's destination, or with `back` to its source, for a packet that
 * comes in by the device `from`; 0: none. A separate function, for its own stack frame.
 */
__noinline int pc_device_from(struct __sk_buff *skb, struct pc_flow *flow, __u32 from, bool back)
{
	struct bpf_fib_lookup fib;
	long found;

	if (!flow)
		return 0;
	fib = pc_fib_from(from, flow, back);
	found = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	return pc_fib_device(&fib, found);
}

static __always_inline int pc_device_to(struct __sk_buff *skb, struct pc_flow *flow, bool back)
{
	return pc_device_from(skb, flow, skb->ifindex, back);
}

/* Whether the flow goes to an address of the node itself. A function of its own, likewise. */
__noinline int pc_is_to_own(struct __sk_buff *skb, const struct pc_flow *flow)
{
	struct bpf_fib_lookup fib;

	if (!flow)
		return false;
	fib = pc_fib_of(skb, flow, false);
	return bpf_fib_lookup(skb, &fib, sizeof(fib), 0) == BPF_FIB_LKUP_RET_NOT_FWDED;
}

/* Whether the device has the hooks of an uplink. */
static __always_inline bool pc_is_uplink(const struct pc_external *external, __u32 device)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_UPLINKS; i++)
		if (device && external->uplink[i] == device)
			return true;
	return false;
}
