/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_other_node.h - connections of external clients to endpoints of another node.
 * Gives pc_other_node_new(), pc_other_node_known(): they set flow->action.node, the node to forward
 * the packet to.
 *
 * The entry keeps the connection at that node while packets come.
 * That node selects which of its endpoints answers. This node
 * checks only whether its chosen endpoint still exists, for UDP.
 */
#pragma once
#include "ct_pre_nat.h"
#include "forward_out.h"
#include "fragments.h"
#include "service_map.h"
#include "return_path.h"

/* Translates the tuple, then restores what the client sent. Verified once, on its own. */
__noinline int pc_other_node_new(struct pc_flow *flow, __u32 node)
{
	struct pc_room *room = pc_room_here();
	struct pc_ct *ct;

	if (!flow || !room)
		return PC_DROP_NO_NODE;
	ct = pc_room_ct(room);
	*ct = (struct pc_ct){};
	ct->flow_id = bpf_get_prandom_u32();
	ct->state = PC_CT_NAT | PC_CT_PRE_NAT | PC_CT_OTHER_NODE | node << PC_CT_NODE_AT;
	pc_tuple_pre_nat(&flow->tuple, &flow->nat);
	flow->action.node = node;
	flow->may_link = pc_is_dsr(pc_backend_of(flow->nat.backend));
	ct->state |= pc_ct_news(flow, false);
	ct->epoch = flow->epoch;
	ct->src.nat = (struct pc_ct_nat){.port = flow->tuple.sport, .backend = flow->nat.backend};
	ct->expires = flow->now + pc_ct_idle(flow, ct->state);
	if (!pc_ct_put(flow, &flow->tuple, ct, flow->has_established_pre_nat))
		return PC_DROP_CT_FULL;
	pc_frag_record(flow);
	return PC_PASS;
}

/* Sees no replies that leave by the other node. A client that continues TCP or SCTP has got one.
 */
static __always_inline void pc_other_node_assume(const struct pc_flow *flow, struct pc_ct *ct,
						 const struct pc_backend *backend)
{
	if (!(ct->state & PC_CT_REPLIED) && !flow->packet.is_opening &&
	    flow->tuple.proto != IPPROTO_UDP && pc_is_dsr(backend))
		__sync_fetch_and_or(&ct->state, PC_CT_REPLIED);
}

/* Whether the other node has no connection to continue: the client opens one and has no reply yet,
 * or has ended the one before.
 */
static __always_inline bool pc_other_node_begins(const struct pc_flow *flow, const struct pc_ct *ct)
{
	__u32 state = ct->state & (PC_CT_REPLIED | PC_CT_FINS | PC_CT_RESET);

	return flow->tuple.proto == IPPROTO_UDP ||
	       (flow->packet.is_opening && state != PC_CT_REPLIED);
}

/* False: the endpoint is gone, and the caller selects a new one. The node that has the endpoint
 * ends established TCP and SCTP connections, or keeps them.
 */
static __always_inline bool pc_other_node_known(struct pc_flow *flow, struct pc_ct_match *match)
{
	struct pc_ct *ct = match->at.ct;
	const struct pc_backend *backend = pc_backend_of(ct->src.nat.backend);

	if ((!backend || backend->state & PC_BACKEND_NO_NEW) && pc_other_node_begins(flow, ct))
		return false;
	flow->action.node = pc_ct_node(ct);
	ct->epoch = flow->epoch; /* no policy of this node applies */
	flow->may_link = pc_is_dsr(backend) && ct->out != PC_OUT_NO_LINK;
	flow->was_silent = pc_out_was_silent(flow, ct);
	pc_other_node_assume(flow, ct, backend);
	pc_ct_touch(&match->at, flow, false);
	pc_frag_record(flow);
	return true;
}
