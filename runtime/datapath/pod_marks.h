/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* pod_marks.h - a pod's packet with a mark of ours, which a later hook would take for our packet.
 * Gives pc_has_spoofed_mark() to from_pod.
 */
#pragma once
#include "answerable.h"
#include "endpoints.h"
#include "tunnel_port.h"

/* Every mark of ours but the tunnel's: docs/node.md keeps the whole range from other software. */
#define PC_MARKS      0x70630000
#define PC_MARKS_MASK 0xffff0000
_Static_assert((PC_ANSWER_MARK & PC_MARKS_MASK) == PC_MARKS, "a mark of ours");

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
	return !pod || !(pod->flags >> PC_ENDPOINT_NETNS);
}
