/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_decided.h - writes a decision into a connection's conntrack entry.
 * Gives pc_ct_insert(), pc_ct_renew(), pc_ct_deny(), pc_ct_cross(), pc_ct_hold().
 */
#pragma once
#include "ct.h"

/* An end that is not, and was not, of this node keeps what the entry knows of the path to it. */
static __always_inline void pc_ct_set_end(struct pc_ct_end *end, const struct pc_endpoint *ep)
{
	if (!(end->ifindex | ep->ifindex))
		return;
	end->ifindex = ep->ifindex;
	__builtin_memcpy(end->mac, ep->mac, sizeof(end->mac));
}

static __always_inline __u64 pc_all_ones(__u32 unless_zero)
{
	__u64 mask = -(__u64)unless_zero;

	barrier_var(mask); /* or compilers make branches of it */
	return -(mask >> 63);
}

/* Not 0 if the pod is now behind another device, or has another MAC. Without branches, because the
 * verifier would follow each of them.
 */
static __always_inline __u64 pc_ct_has_moved(const struct pc_ct_end *end,
					     const struct pc_endpoint *ep)
{
	const __u16 *was = (const __u16 *)end->mac, *is = (const __u16 *)ep->mac;

	return (end->ifindex ^ ep->ifindex) |
	       (((was[0] ^ is[0]) | (was[1] ^ is[1]) | (was[2] ^ is[2])) &
		pc_all_ones(ep->ifindex));
}

/* The ends that are of this node, as bits of pc_decided. Without branches, for the same reason. */
static __always_inline __u8 pc_ct_ends(const struct pc_flow *flow)
{
	__u64 src = -(__u64)flow->src.ifindex, dst = -(__u64)flow->dst.ifindex;

	barrier_var(src); /* or compilers make branches of them */
	barrier_var(dst);
	return src >> 63 | dst >> 63 << 1;
}

/* The ends to which packets may be redirected (fast path). This need not check that the other end
 * is of this node: from_pod sees a pod's packets only from the pod's own device.
 */
static __always_inline __u8 pc_ct_peers(const struct pc_flow *flow)
{
	_Static_assert(PC_ENDPOINT_PEER == PC_DECIDED_DST, "shifted into place");
	return (flow->src.flags & PC_ENDPOINT_PEER) >> 1 | (flow->dst.flags & PC_ENDPOINT_PEER);
}

static __always_inline void pc_ct_decide(struct pc_ct *ct, const struct pc_flow *flow,
					 __u32 egress_rule, __u32 ingress_rule)
{
	pc_ct_set_end(&ct->src, &flow->src);
	pc_ct_set_end(&ct->dst, &flow->dst);
	ct->decided = pc_ct_ends(flow);
	ct->peers = pc_ct_peers(flow);
	ct->egress_rule = egress_rule;
	ct->ingress_rule = ingress_rule;
	ct->epoch = flow->epoch;
}

/* For a connection that the pod's own node opened: only programs with an own-node rule see it. */
static __always_inline __u32 pc_ct_own_node(const struct pc_flow *flow)
{
#ifdef PC_OWN_NODES
	if (PC_OWN_NODES && flow->opener == PC_OPENER_OWN_NODE)
		return PC_CT_NODE;
#endif
	(void)flow;
	return 0;
}

/* How certain it is which end has opened the connection. */
static __always_inline __u32 pc_ct_doubt(const struct pc_flow *flow)
{
	if (flow->opener == PC_OPENER_EITHER)
		return PC_CT_EITHER;
	return flow->opener == PC_OPENER_CLAIMED ? PC_CT_EITHER | PC_CT_CLAIMED : 0;
}

/* The entry of a new connection, in the direction of its first packet. NULL only for the verifier.
 */
static __always_inline struct pc_ct *pc_ct_of(const struct pc_flow *flow, __u32 egress_rule,
					      __u32 ingress_rule, __u32 state)
{
	struct pc_room *room = pc_room_here();
	struct pc_ct *ct;

	if (!room)
		return 0;
	ct = pc_room_ct(room);
	__builtin_memset(ct, 0, sizeof(*ct));
	ct->flow_id = bpf_get_prandom_u32();
	ct->state =
	    state | pc_ct_news(flow, flow->is_reply) | pc_ct_doubt(flow) | pc_ct_own_node(flow);
	if (flow->nat.backend) {
		ct->state |= PC_CT_NAT | flow->action.node << PC_CT_NODE_AT;
		ct->dst.nat =
		    (struct pc_ct_nat){.port = flow->nat.sport, .backend = flow->nat.backend};
	}
	pc_ct_decide(ct, flow, egress_rule, ingress_rule);
	ct->expires = flow->now + pc_ct_idle(flow, ct->state);
	return ct;
}

/* False when the tables have no room. */
static __always_inline bool pc_ct_insert(const struct pc_flow *flow, __u32 egress_rule,
					 __u32 ingress_rule, __u32 state)
{
	struct pc_ct *ct = pc_ct_of(flow, egress_rule, ingress_rule, state);

	return ct && pc_ct_put(flow, &flow->tuple, ct, flow->has_established_entry);
}

/* For a packet to a Service: whether this is its own post-NAT entry, not another connection's.
 */
static __always_inline bool pc_ct_is_translated_as(const struct pc_ct *ct,
						   const struct pc_flow *flow)
{
	return !flow->nat.backend ||
	       (ct->state & PC_CT_NAT && ct->dst.nat.backend == flow->nat.backend &&
		ct->dst.nat.port == flow->nat.sport);
}

/* The active policy has allowed the connection again; its id and state stay. "The stack path has
 * brought a packet" also stays, unless a pod has moved: a host firewall that missed the packets in
 * between would drop the next ones as invalid. An entry that vanished since the lookup is created
 * again.
 */
static __always_inline bool pc_ct_renew(const struct pc_flow *flow, __u32 egress_rule,
					__u32 ingress_rule)
{
	struct pc_ct_at at = pc_ct_get(&flow->tuple, true);
	/* A policy has decided it: these bits no longer hold. */
	__u32 gone = PC_CT_NODE | PC_CT_DENIED | PC_CT_EITHER | PC_CT_CLAIMED | PC_CT_LEAVES;
	struct pc_ct *ct = at.ct;
	__u64 moved;

	if (!ct || ct->back != at.back || !pc_ct_is_translated_as(ct, flow))
		return pc_ct_insert(flow, egress_rule, ingress_rule,
				    flow->is_reply ? PC_CT_REPLIED : 0);
	moved = -(pc_ct_has_moved(&ct->src, &flow->src) | pc_ct_has_moved(&ct->dst, &flow->dst));
	barrier_var(moved);
	gone |= -(moved >> 63) & PC_CT_CAME;
	gone &= ~pc_ct_doubt(flow);
	__sync_fetch_and_and(&ct->state, ~gone);
	if (pc_ct_own_node(flow))
		__sync_fetch_and_or(&ct->state, PC_CT_NODE);
	ct->out &= (moved >> 63) - 1;
	pc_ct_decide(ct, flow, egress_rule, ingress_rule);
	pc_ct_note(ct, flow, flow->is_reply);
	return true;
}

/* A connection that the node opened needs no decision, only the pod's present device and MAC. If a
 * policy denied it (an own-node rule), that policy is no longer active.
 */
static __always_inline void pc_ct_renew_node(struct pc_ct *ct, const struct pc_flow *flow)
{
	pc_ct_set_end(&ct->src, &flow->src);
	pc_ct_set_end(&ct->dst, &flow->dst);
	if (ct->state & PC_CT_DENIED)
		__sync_fetch_and_and(&ct->state, ~PC_CT_DENIED);
	ct->epoch = flow->epoch;
}

/* The connection is no longer allowed. Its entry stays and records that: later packets of either
 * end are judged in the direction in which the connection was opened. A dropped packet does not end
 * the connection. An entry of the opposite direction is not changed.
 */
static __always_inline void pc_ct_deny(const struct pc_flow *flow)
{
	struct pc_ct_at at = pc_ct_get(&flow->tuple, true);
	struct pc_ct *ct = at.ct;

	if (!ct || ct->back != at.back)
		return;
	__sync_fetch_and_or(&ct->state, PC_CT_DENIED);
	if (!pc_ct_own_node(
		flow)) /* later packets of either end must find that the entry is the node's */
		__sync_fetch_and_and(&ct->state, ~PC_CT_NODE);
	/* Its epoch stays: another CPU may clear the bit, under the previous policy. */
	pc_ct_stay(ct, flow);
}

/* A SYN against the connection passes. False if that connection no longer exists. */
static __always_inline bool pc_ct_cross(const struct pc_flow *flow)
{
	struct pc_ct_at at = pc_ct_get(&flow->tuple, true);

	if (!at.ct || at.ct->back == at.back || at.ct->expires <= flow->now)
		return false;
	__sync_fetch_and_or(&at.ct->state, PC_CT_CROSSED);
	return true;
}

/* Moves an entry that is decided again to the established table, as the decision may deny it: a
 * flood of new flows must not evict the entry of a denied connection. Without room there it stays.
 * No pointer to the entry may be used afterwards. The verifier checks this function once.
 */
__noinline int pc_ct_hold(struct pc_flow *flow)
{
	struct pc_ct_at at;

	if (!flow)
		return 0;
	at = pc_ct_get(&flow->tuple, true);
	if (at.ct && !at.is_established && pc_ct_establish(flow, at.ct))
		flow->has_established_entry = true;
	return 0;
}
