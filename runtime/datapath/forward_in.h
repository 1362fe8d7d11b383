/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* forward_in.h - from outside to a pod of this node, past the host's stack.
 * Gives pc_forward_in() to from_uplink. to_pod does not see such a packet, so that all it would do
 * is done here.
 */
#pragma once
#include "nat_forward.h"

/* A match, but for its entry. */
enum pc_in { PC_IN_REPLY = 1, PC_IN_BACK = 2, PC_IN_KEPT = 4 };

/* A packet of a connection that is known and decided: an answer, or to no Service. The stack has
 * brought such ones to the pod before. What the node has opened is for to_pod to judge. A function
 * of its own for its stack; not verified by itself, as 6.1 keeps no entry that such a function is
 * given.
 */
static __noinline int pc_forward_match(struct __sk_buff *skb, struct pc_flow *flow,
				       struct pc_ct *ct, __u32 how)
{
	struct pc_ct_match match = {
	    .at = {.ct = ct, .back = how & PC_IN_BACK, .is_kept = how & PC_IN_KEPT},
	    .is_reply = how & PC_IN_REPLY,
	};

	if (flow->client != PC_CLIENT_OUTSIDE || ct->state & PC_CT_NODE || !pc_is_forwarded(&match))
		return PC_PASS;
	/* What the pod sends has to leave past the stack by this uplink: connection tracking would
	 * else see one way alone, and reverse path filters would not be asked.
	 */
	if (!ct->out || pc_out_device(ct) != skb->ifindex)
		return PC_PASS;
	flow->partial = pc_partial_of(skb, flow);
	if (ct->state & PC_CT_NAT)
		return pc_forward_answer(skb, flow, ct);
	pc_forward(skb, flow, pc_ct_receiver(&match));
	if (flow->forward_to)
		pc_ct_touch(&match.at, flow, match.is_reply);
	return PC_PASS;
}

/* By value, for the same reason. */
static __always_inline int pc_forward_in(struct __sk_buff *skb, struct pc_flow *flow,
					 const struct pc_ct_match *match)
{
	return pc_forward_match(skb, flow, match->at.ct,
				(match->is_reply ? PC_IN_REPLY : 0) |
				    (match->at.back ? PC_IN_BACK : 0) |
				    (match->at.is_kept ? PC_IN_KEPT : 0));
}
