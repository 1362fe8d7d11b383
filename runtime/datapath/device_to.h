/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* device_to.h - by which device the host's stack would forward a packet.
 * Gives pc_device_to(), pc_is_uplink().
 */
#pragma once
#include "outside_map.h"

#define PC_FIB_IPV4 2 /* AF_INET, AF_INET6 of <sys/socket.h>, which is not for BPF */
#define PC_FIB_IPV6 10

/* The device that leads to the address; 0: there is none. */
static __always_inline __u32 pc_device_to(struct __sk_buff *skb, __u8 family,
					  const struct pc_addr6 *from, const struct pc_addr6 *to)
{
	struct bpf_fib_lookup fib = {.ifindex = skb->ifindex};
	long found;

	if (family == PC_IPV4) {
		fib.family = PC_FIB_IPV4;
		fib.ipv4_src = from->word[0];
		fib.ipv4_dst = to->word[0];
	} else {
		fib.family = PC_FIB_IPV6;
		__builtin_memcpy(fib.ipv6_src, from, sizeof(fib.ipv6_src));
		__builtin_memcpy(fib.ipv6_dst, to, sizeof(fib.ipv6_dst));
	}
	found = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	return found == BPF_FIB_LKUP_RET_SUCCESS || found == BPF_FIB_LKUP_RET_NO_NEIGH ? fib.ifindex
										       : 0;
}

/* Whether the device has the hooks of an uplink. */
static __always_inline bool pc_is_uplink(const struct pc_outside *outside, __u32 device)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_UPLINKS; i++)
		if (device && outside->uplink[i] == device)
			return true;
	return false;
}
