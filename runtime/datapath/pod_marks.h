/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* pod_marks.h - a pod's packet with a mark of ours, which a later hook would take for our packet.
 * Gives pc_has_spoofed_mark() to from_pod.
 */
#pragma once
#include "answerable.h"
#include "endpoints.h"
#include "packet.h"
#include "tunnel_port.h"
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <stddef.h>

/* Every mark of ours but the tunnel's: docs/node.md keeps the whole range from other software. */
#define PC_MARKS      0x70630000
#define PC_MARKS_MASK 0xffff0000

#define PC_PROTO4_AT    (ETH_HLEN + offsetof(struct iphdr, protocol))
#define PC_PROTO6_AT    (ETH_HLEN + offsetof(struct ipv6hdr, nexthdr))
#define PC_TCP_FLAGS_AT 13
_Static_assert((PC_ANSWER_MARK & PC_MARKS_MASK) == PC_MARKS, "a mark of ours");

/* A reset without data, or an ICMP error of a rule that rejects: answer.h makes nothing else, and
 * no IPv4 options. So a pod that could bring the mark by BPF of its own opens no connection with
 * it.
 */
static __always_inline bool pc_is_refusal(struct __sk_buff *skb)
{
	__u32 l4 = ETH_HLEN + sizeof(struct iphdr), len = skb->len;
	bool is_ip4 = skb->protocol == bpf_htons(ETH_P_IP);
	__u8 head = 0, proto = 0, icmp[2] = {};

	if (!is_ip4)
		l4 = ETH_HLEN + sizeof(struct ipv6hdr);
	if (!pc_read(skb, ETH_HLEN, &head, 1) ||
	    !pc_read(skb, is_ip4 ? PC_PROTO4_AT : PC_PROTO6_AT, &proto, 1))
		return false;
	if (head >> 4 != (is_ip4 ? 4 : 6) || (is_ip4 && (head & 15) != 5))
		return false;
	if (proto == IPPROTO_TCP)
		return len == l4 + sizeof(struct tcphdr) &&
		       pc_read(skb, l4 + PC_TCP_FLAGS_AT, &head, 1) && head & PC_TCP_RST;
	if (proto != (is_ip4 ? IPPROTO_ICMP : IPPROTO_ICMPV6) ||
	    !pc_read(skb, l4, icmp, sizeof(icmp)))
		return false;
	return is_ip4 ? icmp[0] == PC_ICMP_UNREACHABLE && icmp[1] == PC_ICMP_PROHIBITED
		      : icmp[0] == PC_ICMP6_UNREACHABLE && icmp[1] == PC_ICMP6_PROHIBITED;
}

/* Our answer for a pod also comes in by the pod's device (reject.h). Its mark is believed only
 * where the pod's end is in another network namespace: the kernel clears the pod's own mark on that
 * way. (The loader refuses a netkit device that keeps it.) A function of its own: from_pod's stack
 * is full.
 */
__noinline int pc_has_spoofed_mark(struct __sk_buff *skb)
{
	__u32 mark = skb->mark, ifindex = skb->ifindex;
	const struct pc_endpoint *pod;

	if ((mark & PC_MARKS_MASK) != PC_MARKS && mark != PC_TUNNEL_MARK)
		return false;
	if (mark != PC_ANSWER_MARK)
		return true;
	pod = bpf_map_lookup_elem(&pc_if, &ifindex);
	return !pod || !(pod->flags >> PC_ENDPOINT_NETNS) || !pc_is_refusal(skb);
}
