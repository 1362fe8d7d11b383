/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* hairpin.h - a pod that is an endpoint of a Service reaches itself through that Service.
 * Gives pc_hairpin() for the end of from_pod, which does all of it. The pod's packet to the Service
 * comes back to it from a reserved address. Its reply to that address comes back from the Service.
 * No policy decides it, as a pod cannot block itself (semantics A23).
 *
 * A node that is its own endpoint uses the same path at the device of to_route.h.
 *
 * Such a connection has two entries as other Service connections have (ct_pre_nat.h). The post-NAT
 * entry has the reserved address in place of the client's. Both stay in the new-connection table.
 */
#pragma once
#include "hairpin_addr.h"
#include "hairpin_error.h"
#include "nat_hooks.h"
#include "service_reject.h"

/* Opens a connection. The tuple is translated except for its source, and its port is free. */
__noinline int pc_hairpin_open(struct pc_flow *flow)
{
	struct pc_room *room = pc_room_here();
	__be16 port, target;
	struct pc_ct *ct;

	if (!flow || !room)
		return PC_DROP_HAIRPIN;
	ct = pc_room_ct(room);
	__builtin_memset(ct, 0, sizeof(*ct));
	ct->state = PC_CT_NAT;
	port = flow->tuple.sport;
	target = flow->tuple.dport;
	flow->dst = flow->src;
	pc_ct_decide(ct, flow, 0, 0);
	ct->state |= flow->action.node << PC_CT_NODE_AT;
	if (flow->client == PC_CLIENT_NODE)
		ct->state |= PC_CT_NODE;
	ct->flow_id = bpf_get_prandom_u32();
	ct->expires = flow->now + pc_ct_idle(flow, 0);
	ct->src.nat.port = flow->nat.sport;
	ct->src.nat.backend = flow->nat.backend;
	ct->dst.nat = ct->src.nat;
	flow->action.frag_backend = flow->nat.backend;
	pc_hairpin_address(&flow->tuple.saddr, flow->tuple.family);
	if (!pc_ct_put(flow, &flow->tuple, ct, flow->has_established_entry))
		return PC_DROP_CT_FULL;
	ct->state |= PC_CT_PRE_NAT;
	ct->src.nat.port = port;
	ct->dst.nat.port = port;
	/* The pre-NAT entry's tuple, while that entry is stored. */
	flow->tuple.saddr = flow->tuple.daddr;
	pc_tuple_pre_nat(&flow->tuple, &flow->nat);
	if (!pc_ct_put(flow, &flow->tuple, ct, flow->has_established_pre_nat))
		return PC_DROP_CT_FULL;
	flow->tuple.daddr = flow->tuple.saddr;
	flow->tuple.dport = target;
	flow->tuple.sport = port;
	pc_hairpin_address(&flow->tuple.saddr, flow->tuple.family);
	return PC_PASS;
}

/* The entry of flow->tuple, in its direction or in the reverse direction. */
static __always_inline struct pc_ct *pc_hairpin_find(const struct pc_flow *flow, bool is_reply)
{
	struct pc_ct_at at = pc_ct_get(&flow->tuple, true);

	if (!at.ct || at.ct->expires <= flow->now || !(at.ct->state & PC_CT_NAT) ||
	    (at.back != at.ct->back) != is_reply)
		return 0;
	return at.ct;
}

/* To the Service, on an existing connection. A pre-NAT entry without its post-NAT entry is deleted:
 * it would block the next connection.
 */
__noinline int pc_hairpin_on(struct pc_flow *flow)
{
	const struct pc_backend *backend;
	struct pc_ct *pre_nat, *ct;

	if (!flow)
		return PC_DROP_HAIRPIN;
	pre_nat = pc_hairpin_find(flow, false);
	if (!pre_nat)
		return PC_DROP_BACKEND_GONE;
	backend = pc_nat_backend(pre_nat->src.nat.backend, flow->tuple.proto);
	if (!backend)
		return PC_DROP_BACKEND_GONE;
	pc_tuple_translate(flow, backend, pre_nat->src.nat.backend, pre_nat->src.nat.port);
	flow->action.frag_backend = flow->nat.backend;
	pc_hairpin_address(&flow->tuple.saddr, flow->tuple.family);
	ct = pc_hairpin_find(flow, false);
	if (ct && ct->flow_id == pre_nat->flow_id) {
		pc_ct_note(pre_nat, flow, false);
		pc_ct_note(ct, flow, false);
		return PC_PASS;
	}
	pc_tuple_pre_nat(&flow->tuple, &flow->nat);
	flow->tuple.saddr = backend->addr;
	pc_ct_delete(&flow->tuple);
	return PC_DROP_BACKEND_GONE;
}

/* To the reserved address: a reply. */
__noinline int pc_hairpin_back(struct pc_flow *flow)
{
	const struct pc_backend *backend;
	struct pc_ct *pre_nat, *ct;

	if (!flow)
		return PC_DROP_HAIRPIN;
	ct = pc_hairpin_find(flow, true);
	if (!ct)
		return PC_DROP_BACKEND_GONE;
	backend = pc_nat_backend(ct->src.nat.backend, flow->tuple.proto);
	if (!backend)
		return PC_DROP_BACKEND_GONE;
	flow->tuple.daddr = flow->tuple.saddr;
	flow->tuple.dport = ct->src.nat.port;
	flow->tuple.saddr = *pc_ct_frontend_addr(backend, flow->tuple.family, ct);
	flow->tuple.sport = backend->frontend_port;
	flow->action.frag_backend = ct->src.nat.backend | PC_FRAG_REPLY;
	flow->action.node = pc_ct_node(ct);
	pc_ct_note(ct, flow, true);
	pre_nat = pc_hairpin_find(flow, true);
	if (pre_nat && pre_nat->flow_id == ct->flow_id)
		pc_ct_note(pre_nat, flow, true);
	return PC_PASS;
}

/* A later fragment has no ports. Its addresses are
 * translated like those of the first fragment.
 */
__noinline int pc_hairpin_follow(struct pc_flow *flow)
{
	const struct pc_frag *first = flow ? pc_frag_first(flow) : 0;
	const struct pc_backend *backend;

	if (!first)
		return PC_DROP_FRAGMENT;
	backend = pc_backend_of(first->backend & ~PC_FRAG_REPLY);
	if (!backend)
		return PC_DROP_BACKEND_GONE;
	flow->tuple.daddr = flow->tuple.saddr;
	if (first->backend & PC_FRAG_REPLY)
		flow->tuple.saddr =
		    *pc_frontend_addr(&backend->frontend, flow->tuple.family, first->node);
	else
		pc_hairpin_address(&flow->tuple.saddr, flow->tuple.family);
	return PC_PASS;
}

static __always_inline bool pc_hairpin_ports_into(struct __sk_buff *skb, const struct pc_flow *flow)
{
	__be16 port[2];

	if (flow->packet.fragment == PC_FRAG_LATER)
		return true;
	return !bpf_skb_load_bytes(skb, flow->packet.l4, port, sizeof(port)) &&
	       pc_nat_port(skb, flow, PC_NAT_SRC, port[0], flow->tuple.sport) &&
	       pc_nat_port(skb, flow, PC_NAT_DST, port[1], flow->tuple.dport);
}

/* Writes flow->tuple into the packet. Afterwards flow->tuple holds what the packet had before. */
__noinline int pc_hairpin_write(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_addr6 src = {}, dst = {};
	bool is_read;

	if (!flow)
		return PC_DROP_MALFORMED;
	if (flow->tuple.family == PC_IPV4)
		is_read = !bpf_skb_load_bytes(skb, PC_IP4_SADDR_AT, &src, 4) &&
			  !bpf_skb_load_bytes(skb, PC_IP4_DADDR_AT, &dst, 4);
	else
		is_read = !bpf_skb_load_bytes(skb, PC_IP6_SADDR_AT, &src, sizeof(src)) &&
			  !bpf_skb_load_bytes(skb, PC_IP6_DADDR_AT, &dst, sizeof(dst));
	if (!is_read || !pc_nat_addr(skb, flow, PC_NAT_SRC, &src, &flow->tuple.saddr) ||
	    !pc_nat_addr(skb, flow, PC_NAT_DST, &dst, &flow->tuple.daddr) ||
	    !pc_hairpin_ports_into(skb, flow))
		return PC_DROP_MALFORMED;
	flow->tuple.saddr = src;
	flow->tuple.daddr = dst;
	return PC_PASS;
}

/* Records the untranslated addresses, under which later fragments are looked up. */
__noinline int pc_hairpin_record(struct pc_flow *flow)
{
	if (!flow)
		return 0;
	flow->nat.backend = 0;
	pc_frag_passed(flow);
	return 0;
}

/* A separate function, for its own stack frame. */
__noinline int pc_hairpin_macs(struct __sk_buff *skb)
{
	return pc_turn_macs(skb) ? PC_PASS : PC_DROP_MALFORMED;
}

static __always_inline enum drop_reason pc_hairpin_ends(struct pc_flow *flow)
{
	if (flow->packet.fragment == PC_FRAG_LATER)
		return pc_hairpin_follow(flow);
	if (pc_is_hairpin(&flow->tuple.daddr, flow->tuple.family))
		return pc_hairpin_back(flow);
	return flow->nat.backend ? pc_hairpin_open(flow) : pc_hairpin_on(flow);
}

/* Rewrites the packet so that it returns to its sender, and swaps the frame's MACs. */
static __always_inline enum drop_reason pc_hairpin_turn(struct __sk_buff *skb, struct pc_flow *flow)
{
	enum drop_reason reason;

	if (pc_is_icmp_error(flow)) {
		reason = flow->packet.fragment ? PC_DROP_HAIRPIN : pc_hairpin_error(skb, flow);
	} else {
		reason = pc_hairpin_ends(flow);
		if (!reason)
			reason = pc_hairpin_write(skb, flow);
		if (!reason)
			pc_hairpin_record(flow);
	}
	return reason ? reason : pc_hairpin_macs(skb);
}

/* The return value of a pod's hook for a packet that returns to that pod. */
static __always_inline int pc_hairpin(struct __sk_buff *skb, struct pc_flow *flow)
{
	enum drop_reason reason = pc_reject_check_sender(flow);

	if (!reason)
		reason = pc_hairpin_turn(skb, flow);
	flow->action.reason = reason;
	if (reason)
		return pc_tc_action(reason);
	skb->mark = 0;
	return pc_return(skb, flow);
}
