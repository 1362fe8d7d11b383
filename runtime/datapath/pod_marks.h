/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* pod_marks.h - a pod's packet with one of our marks, which a later hook would take for our packet.
 * Gives pc_pod_mark() to from_pod.
 */
#pragma once
#include "answerable.h"
#include "endpoints.h"
#include "marks.h"
#include "tunnel_port.h"

_Static_assert((PC_ANSWER_MARK & PC_MARKS_MASK) == PC_MARKS, "a mark of ours");

enum pc_mark { PC_MARK_OTHER = 0, PC_MARK_SPOOFED, PC_MARK_ANSWER };

/* Our answer for a pod also comes in by the pod's device (reject.h).
 * Its source MAC identifies it: a pod can set its mark where the device
 * keeps marks, or by its own BPF. This replaces that MAC by the pod's,
 * and clears the mark. A separate function: from_pod's stack is full.
 */
__noinline int pc_pod_mark(struct __sk_buff *skb, __u32 device)
{
	__u32 mark = skb->mark;
	const struct pc_endpoint *pod;

	if ((mark & PC_MARKS_MASK) != PC_MARKS && mark != PC_TUNNEL_MARK)
		return PC_MARK_OTHER;
	if (mark != PC_ANSWER_MARK || !pc_is_answer(skb))
		return PC_MARK_SPOOFED;
	pod = bpf_map_lookup_elem(&pc_if, &device);
	if (!pod || !pc_put(skb, PC_MAC_LEN, pod->mac, PC_MAC_LEN))
		return PC_MARK_SPOOFED;
	skb->mark = 0;
	return PC_MARK_ANSWER;
}
