/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* link_forward.h - a client's packet for a node port, to the endpoint's node on the same link: only
 * its MACs change. That node knows node ports of all nodes, and replies directly to the client.
 * Gives pc_to_node_by_link() to the node that forwards, pc_accept_link() to the one that receives.
 * Why: docs/decisions/0057-by-the-link.md
 */
#pragma once
#include "ct_pre_nat.h"
#include "device_to.h"
#include "external_forward.h"
#include "ipsec.h"
#include "related.h"
#include "return_path.h"
#include "tunnel.h"
#include "way_out.h"

/* Whether the packet may go by the link at all. Fragments go by the tunnel: later ones have no
 * port. Of the addresses of a Service, only a node port names the node that forwards.
 */
static __always_inline bool pc_may_go_by_link(const struct __sk_buff *skb,
					      const struct pc_flow *flow,
					      const struct pc_external *external)
{
	return external->by_link && !flow->packet.fragment && flow->may_link &&
	       !pc_has_ipsec(skb) && pc_is_own_node(flow->tuple.family, &flow->tuple.daddr);
}

/* The uplink by which the node is on the same link, with the MACs of both; 0: none. */
static __always_inline __u32 pc_link_to(struct __sk_buff *skb, struct bpf_fib_lookup *fib,
					const struct pc_external *external,
					const struct pc_vtep *node)
{
	struct pc_addr6 next = {};

	fib->ifindex = skb->ifindex;
	if (node->vtep_family == PC_IPV4) {
		fib->family = PC_FIB_IPV4;
		fib->ipv4_dst = node->vtep.word[0];
	} else {
		fib->family = PC_FIB_IPV6;
		__builtin_memcpy(fib->ipv6_dst, &node->vtep, sizeof(fib->ipv6_dst));
	}
	if (bpf_fib_lookup(skb, fib, sizeof(*fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return 0;
	if (node->vtep_family == PC_IPV4)
		next.word[0] = fib->ipv4_dst;
	else
		__builtin_memcpy(&next, fib->ipv6_dst, sizeof(next));
	/* Behind a gateway, the lookup gives the gateway's address. */
	return pc_addr_eq(&next, &node->vtep) && pc_is_uplink(external, fib->ifindex) ? fib->ifindex
										      : 0;
}

/* The uplink of the last lookup, if that was less than a second ago; 0: look up again. Not for a
 * packet that the other node has sent back.
 */
static __always_inline __u32 pc_link_known(const struct __sk_buff *skb, const struct pc_flow *flow,
					   const struct pc_external *external,
					   const struct pc_ct *ct)
{
	__u32 device = pc_out_device(ct);

	if (flow->was_silent || (ct->out & PC_OUT_TIME) != pc_out_time(flow) ||
	    flow->packet.hop_limit <= 1 || pc_mac_eq(ct->dst.mac, flow->packet.smac))
		return 0;
	return external->by_link == PC_LINK_ALWAYS || device == skb->ifindex ? device : 0;
}

/* Later packets get these MACs. */
static __always_inline void pc_link_learn(struct pc_ct *ct, const struct pc_flow *flow,
					  const struct pc_external *external,
					  const struct bpf_fib_lookup *fib)
{
	__u8 place = pc_uplink_place(external, fib->ifindex);

	__builtin_memcpy(ct->dst.mac, fib->dmac, sizeof(ct->dst.mac));
	__builtin_memcpy(ct->dst.gateway, fib->smac, sizeof(ct->dst.gateway));
	ct->out = place ? place | pc_out_time(flow) : 0;
}

/* Sets forward_to if the entry holds the path. */
static __always_inline int pc_by_known_link(struct __sk_buff *skb, struct pc_flow *flow,
					    const struct pc_external *external,
					    const struct pc_ct *ct)
{
	__u32 device = pc_link_known(skb, flow, external, ct);

	if (!device)
		return PC_PASS;
	if (pc_is_too_big(skb, flow, device))
		return PC_STEP_TELL_SIZE;
	if (!pc_readdress(skb, flow, &ct->dst))
		return PC_DROP_MALFORMED;
	skb->mark = PC_ROUTED_MARK;
	flow->action.forward_to = device | PC_REDIRECTED;
	bpf_redirect(device, 0);
	return PC_PASS;
}

/* Sets forward_to if the packet goes by the link. The kernel's own neighbour lookup keeps the
 * neighbour in its table.
 */
__noinline int pc_to_node_by_link(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_external *external = pc_external_now();
	struct bpf_fib_lookup fib = {};
	struct bpf_redir_neigh next = {};
	const struct pc_vtep *node;
	struct pc_ct *ct;
	__u32 device;
	int reason;

	if (!flow || !external || !pc_may_go_by_link(skb, flow, external))
		return PC_PASS;
	node = pc_node_of(flow->action.node);
	if (!node)
		return PC_DROP_NO_NODE;
	ct = pc_ct_get(&flow->tuple, true).ct;
	if (!ct || !(ct->state & PC_CT_OTHER_NODE))
		return PC_PASS;
	reason = pc_by_known_link(skb, flow, external, ct);
	if (reason || flow->action.forward_to)
		return reason;
	device = pc_link_to(skb, &fib, external, node);
	if (!device || (external->by_link == PC_LINK_SAME_DEVICE && device != skb->ifindex))
		return PC_PASS;
	if (pc_mac_eq(fib.dmac, flow->packet.smac)) {
		/* The other node has sent the packet back, as it does not take it. From now on the
		 * connection goes by the tunnel.
		 */
		ct->out = PC_OUT_NO_LINK;
		return PC_PASS;
	}
	pc_link_learn(ct, flow, external, &fib);
	if (pc_is_too_big(skb, flow, device))
		return PC_STEP_TELL_SIZE;
	reason = pc_take_hop(skb, flow);
	if (reason)
		return reason;
	skb->mark = PC_ROUTED_MARK;
	flow->action.forward_to = device | PC_REDIRECTED;
	if (node->vtep_family == flow->tuple.family) {
		next.nh_family = fib.family;
		__builtin_memcpy(next.ipv6_nh, fib.ipv6_dst, sizeof(next.ipv6_nh));
		bpf_redirect_neigh(device, &next, sizeof(next), 0);
		return PC_PASS;
	}
	if (bpf_skb_store_bytes(skb, 0, fib.dmac, PC_MAC_LEN, 0) ||
	    bpf_skb_store_bytes(skb, PC_MAC_LEN, fib.smac, PC_MAC_LEN, 0))
		return PC_DROP_MALFORMED;
	bpf_redirect(device, 0);
	return PC_PASS;
}

/* The number of the address that the packet is for, if it has the MAC of that other node: the node
 * has forwarded it by the link. 0: it has not.
 */
__noinline int pc_sent_by_link(struct __sk_buff *skb, struct pc_flow *flow)
{
	const __u32 *number;
	struct bpf_fib_lookup fib;

	if (!flow)
		return 0;
	number = pc_node_at(flow->tuple.family, &flow->tuple.daddr);
	if (!number || !*number)
		return 0;
	fib = pc_fib_of(skb, flow, false);
	if (bpf_fib_lookup(skb, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS ||
	    fib.ifindex != skb->ifindex || !pc_mac_eq(fib.dmac, flow->packet.smac))
		return 0;
	return *number;
}

/* The same for a packet with a pre-NAT entry or none. A connection that came so goes on so. */
static __always_inline __u32 pc_by_link(struct __sk_buff *skb, struct pc_flow *flow,
					const struct pc_ct *ct)
{
	const struct pc_external *external = pc_external_now();
	const struct pc_vtep *node;

	if (!external || !external->by_link || flow->client != PC_CLIENT_EXTERNAL ||
	    flow->packet.fragment || pc_is_icmp_error(flow))
		return 0;
	if (!ct)
		return pc_sent_by_link(skb, flow);
	if (!(ct->state & PC_CT_PRE_NAT) || ct->state & PC_CT_OTHER_NODE || !pc_ct_node(ct))
		return 0;
	node = pc_node_of(pc_ct_node(ct));
	return node && pc_addr_eq(&node->addr, &flow->tuple.daddr) ? pc_ct_node(ct) : 0;
}

/* The uplink that leads to the client, if it is another one: reverse path filters expect the packet
 * there. 0: the packet is where it should be.
 */
static __always_inline __u32 pc_other_uplink(struct __sk_buff *skb, struct pc_flow *flow)
{
	const struct pc_external *external = pc_external_now();
	__u32 device;

	if (!external || !external->uplink[1])
		return 0;
	device = pc_device_to(skb, flow, true);
	return device != skb->ifindex && pc_is_uplink(external, device) ? device : 0;
}

/* From here on a packet that came by the link is one that another node forwarded, as if it had come
 * by the tunnel.
 */
static __always_inline int pc_accept_link(struct __sk_buff *skb, struct pc_flow *flow,
					  const struct pc_ct *ct)
{
	__u32 number = pc_by_link(skb, flow, ct);
	int step;

	if (!number)
		return PC_PASS;
	flow->client = PC_CLIENT_FORWARDED;
	flow->action.node = number;
	step = ct && ct->out & PC_OUT_BOTH ? pc_external_direct(skb, flow) : PC_STEP_OTHER;
	if (step != PC_STEP_OTHER)
		return step;
	flow->action.forward_to = pc_other_uplink(skb, flow);
	return flow->action.forward_to ? PC_STEP_OTHER_UPLINK : PC_PASS;
}
