/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* from_netkit.h - the fast path out of a pod behind netkit, where the pod sends.
 * Gives pc_from_netkit_frame(). The program runs before the packet waits in a CPU's backlog queue,
 * and sends it out by an uplink at once. It decides nothing new: a packet leaves here only if
 * from_pod would send it out by the same entry. from_pod sees all others.
 * Why: docs/decisions/0054-netkit.md
 */
#pragma once
#include "came_in.h"
#include "forward_out.h"
#include "generation.h"
#include "offload.h"
#include "parse.h"
#include "sender.h"
#include "tunnel_port.h"

/* A packet in the middle of a connection, in a protocol with ports. */
static __always_inline bool pc_is_continued(struct __sk_buff *skb, struct pc_flow *flow)
{
	if (pc_parse(skb, flow) || flow->packet.fragment || !pc_l4_header(&flow->tuple) ||
	    pc_is_icmp(&flow->tuple) || flow->packet.is_opening || pc_is_to_tunnel(flow))
		return false;
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	return flow->packet.csum_partial != PC_PARTIAL_INVALID;
}

/* from_pod translates what goes to a Service, and a Service's replies. A Service takes over a
 * connection that has no reply yet.
 */
static __always_inline bool pc_is_untranslated(const struct pc_ct *ct)
{
	return (ct->state & (PC_CT_NAT | PC_CT_PRE_NAT | PC_CT_REPLIED)) == PC_CT_REPLIED;
}

/* True: redirected. */
static __always_inline bool pc_from_netkit_frame(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_ct_match match;

	if (skb->mark || !pc_is_continued(skb, flow))
		return false;
	pc_generation(flow);
	match = pc_ct_find(flow);
	if (!match.at.ct || !match.is_fresh || !pc_is_untranslated(match.at.ct) ||
	    pc_is_forwarded(&match) || !pc_is_sent_out(flow, &match) ||
	    pc_check_entry_sender(skb, flow, pc_ct_sender(&match)))
		return false;
	pc_send_out(skb, flow, match.at.ct, match.is_reply);
	if (!(flow->action.forward_to & PC_REDIRECTED))
		return false;
	skb->tc_index = PC_OF_NETKIT;
	pc_ct_touch(&match.at, flow, match.is_reply);
	return true;
}
