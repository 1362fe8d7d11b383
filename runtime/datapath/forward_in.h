/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* forward_in.h - the fast path from an uplink to a pod of this node.
 * Gives pc_forward_in() to from_uplink. to_pod does not see such a packet, so this does all that
 * to_pod would do.
 */
#pragma once
#include "nat_forward.h"

/* The bits of a match, without its entry. */
enum pc_in { PC_IN_REPLY = 1, PC_IN_BACK = 2, PC_IN_ESTABLISHED = 4 };

/* A packet of a connection that is known and decided: a reply, or a packet to no Service. The
 * stack path has brought such packets to the pod before. to_pod judges connections that the node
 * has opened. A separate function for its stack frame; not verified on its own, as 6.1 does not
 * keep an entry that such a function gets as an argument.
 */
static __noinline int pc_forward_match(struct __sk_buff *skb, struct pc_flow *flow,
				       struct pc_ct *ct, __u32 how)
{
	struct pc_ct_match match = {
	    .at = {.ct = ct, .back = how & PC_IN_BACK, .is_established = how & PC_IN_ESTABLISHED},
	    .is_reply = how & PC_IN_REPLY,
	};

	if (flow->client != PC_CLIENT_EXTERNAL || ct->state & PC_CT_NODE ||
	    !pc_is_forwarded(&match))
		return PC_PASS;
	/* The pod's packets must leave on the fast path by this uplink. Otherwise connection
	 * tracking would see one direction only, and no reverse path filter would apply.
	 */
	if (!ct->out || pc_out_device(ct) != skb->ifindex || pc_has_ipsec(skb))
		return PC_PASS;
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	if (ct->state & PC_CT_NAT)
		return pc_forward_reply(skb, flow, ct);
	pc_forward(skb, flow, pc_ct_receiver(&match));
	if (flow->action.forward_to)
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
				    (match->at.is_established ? PC_IN_ESTABLISHED : 0));
}
