/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* forward_out.h - the fast path from a pod to an end that is not of this node.
 * Gives pc_is_sent_out(), pc_send_out() to from_pod. Later packets get the MACs with which the
 * stack sent an unchanged one, and a mark by which to_uplink passes them. The routing and neighbour
 * tables are looked up again every second or so.
 * Why: docs/decisions/0033-past-the-stack-to-other-nodes.md
 */
#pragma once
#include "forward.h"
#include "external_map.h"
#include "generation.h"
#include "ipsec.h"
#include "snat_owner.h"

/* The fields of pc_ct's `out`: the uplink, as 1 + its place in `fast_path_uplink` of
 * external_map.h; and the time of the last route lookup, in units of 256 ticks.
 */
#define PC_OUT_UPLINK 0x0f
#define PC_OUT_TIME   0xf0
#define PC_OUT_NEVER  0x0f /* not an uplink's place: the route's MTU is below the device's */

#define PC_OUT_IPV4 2 /* AF_INET, AF_INET6 of <sys/socket.h>, which is not for BPF */
#define PC_OUT_IPV6 10

static __always_inline __u8 pc_out_time(const struct pc_flow *flow)
{
	return flow->now >> 8 << 4 & PC_OUT_TIME;
}

/* The bit of `peers` that says whether the sender's packets may use the fast path at all. */
static __always_inline __u8 pc_out_sender(const struct pc_ct_match *match)
{
	return match->is_reply ? PC_DECIDED_DST : PC_DECIDED_SRC;
}

/* TCP uses the fast path in both directions or in neither. Connection tracking that sees one
 * direction classifies its packets as invalid, and firewalls drop those.
 */
static __always_inline bool pc_is_sent_out(const struct pc_flow *flow,
					   const struct pc_ct_match *match)
{
	const struct pc_ct *ct = match->at.ct;
	__u32 other = match->is_reply ? PC_CT_CAME_DST : PC_CT_CAME_SRC;

	return ct->out && !pc_ct_receiver(match)->ifindex && ct->peers & pc_out_sender(match) &&
	       (ct->state & other || flow->tuple.proto != IPPROTO_TCP);
}

/* The uplink's device; 0: the last load has no uplink in that place. */
static __always_inline __u32 pc_out_device(const struct pc_ct *ct)
{
	const struct pc_external *external = pc_external_now();
	__u32 place = (ct->out & PC_OUT_UPLINK) - 1;

	return external && place < PC_UPLINKS ? external->fast_path_uplink[place] : 0;
}

/* The present path from one end to the other, for a packet that comes in by the device: fills
 * `fib`, but not the type of service. BPF_FIB_LKUP_RET_*: only a path with a known neighbour gives
 * the route's MTU.
 */
static __always_inline int pc_path(struct __sk_buff *skb, const struct pc_flow *flow,
				   struct bpf_fib_lookup *fib, __u32 device, bool is_back)
{
	const struct pc_addr6 *saddr = is_back ? &flow->tuple.daddr : &flow->tuple.saddr;
	const struct pc_addr6 *daddr = is_back ? &flow->tuple.saddr : &flow->tuple.daddr;

	fib->ifindex = device;
	fib->l4_protocol = flow->tuple.proto;
	fib->sport = is_back ? flow->tuple.dport : flow->tuple.sport;
	fib->dport = is_back ? flow->tuple.sport : flow->tuple.dport;
	fib->tot_len = 1; /* asks for the route's MTU */
	if (flow->tuple.family == PC_IPV4) {
		fib->family = PC_OUT_IPV4;
		fib->ipv4_src = saddr->word[0];
		fib->ipv4_dst = daddr->word[0];
	} else {
		fib->family = PC_OUT_IPV6;
		__builtin_memcpy(fib->ipv6_src, saddr, sizeof(fib->ipv6_src));
		__builtin_memcpy(fib->ipv6_dst, daddr, sizeof(fib->ipv6_dst));
	}
	return bpf_fib_lookup(skb, fib, sizeof(*fib), 0);
}

/* Sends by the kernel's neighbour lookup, which keeps the neighbour in its table. to_uplink learns
 * from this packet, too.
 */
static __always_inline void pc_out_by(struct __sk_buff *skb, struct pc_flow *flow,
				      const struct bpf_fib_lookup *fib)
{
	struct bpf_redir_neigh next = {};
	struct pc_ct_end as_it_is = {};

	next.nh_family = fib->family;
	__builtin_memcpy(next.ipv6_nh, fib->ipv6_dst, sizeof(next.ipv6_nh));
	if (!pc_readdress(skb, flow, &as_it_is))
		return;
	skb->mark = 0;
	flow->action.forward_to = fib->ifindex | PC_REDIRECTED;
	bpf_redirect_neigh(fib->ifindex, &next, sizeof(next), 0);
}

/* If the path has changed, the packet takes the stack path again. Verified once, on its own, like
 * the next function.
 */
__noinline int pc_out_again(struct __sk_buff *skb, struct pc_flow *flow, struct pc_ct *ct)
{
	struct bpf_fib_lookup fib = {};
	__u32 device, mtu = 0;
	int found;

	if (!flow || !ct)
		return 0;
	device = pc_out_device(ct);
	bpf_check_mtu(skb, device, &mtu, 0, 0);
	found = device ? pc_path(skb, flow, &fib, skb->ifindex, false) : BPF_FIB_LKUP_RET_NOT_FWDED;
	if ((found != BPF_FIB_LKUP_RET_SUCCESS && found != BPF_FIB_LKUP_RET_NO_NEIGH) ||
	    fib.ifindex != device) {
		ct->out = 0;
		return 0;
	}
	if (found == BPF_FIB_LKUP_RET_SUCCESS && fib.mtu_result < mtu) {
		ct->out = PC_OUT_NEVER;
		return 0;
	}
	pc_out_by(skb, flow, &fib);
	return 0;
}

/* The time wraps every 4096 ticks. So a connection that was silent for long does not count as one
 * that looked up its path just now.
 */
static __always_inline bool pc_out_was_silent(const struct pc_flow *flow, const struct pc_ct *ct)
{
	return ct->expires + 2 * flow->second < flow->now + pc_ct_idle(flow, ct->state);
}

/* Sets forward_to, unless the stack must see the packet. The tuple is that of the packet as it
 * leaves. 1: the caller calls pc_out_again().
 */
__noinline int pc_out(struct __sk_buff *skb, struct pc_flow *flow, struct pc_ct *ct, bool is_reply)
{
	const struct pc_ct_end *to;
	__u32 device;

	if (!flow || !ct || skb->pkt_type != PACKET_HOST || skb->mark || !pc_is_plain(flow) ||
	    pc_has_ipsec(skb))
		return 0; /* an earlier program has marked it for the stack */
	to = is_reply ? &ct->src : &ct->dst;
	device = pc_out_device(ct);
	if (!device || device == skb->ifindex || !pc_fits(skb, flow, device))
		return 0;
	if ((ct->out & PC_OUT_TIME) != pc_out_time(flow) || pc_out_was_silent(flow, ct))
		return 1;
	if (!pc_readdress(skb, flow, to))
		return 0;
	skb->mark = ct->state & PC_CT_LEAVES ? PC_ROUTED_MARK : 0;
	flow->action.forward_to = device | PC_REDIRECTED;
	bpf_redirect(device, 0);
	return 0;
}

/* Whether to_uplink learns nothing from the packet. SNAT may be newer than what the entry has
 * learnt. Services' replies to external clients get no SNAT.
 */
static __always_inline bool pc_out_is_translated(const struct pc_flow *flow, const struct pc_ct *ct,
						 bool is_reply)
{
	return pc_has_snat() && !(ct->state & PC_CT_NAT && is_reply) &&
	       !pc_snat_is_except(flow->tuple.family, &flow->tuple.daddr);
}

/* Calls one after the other: the BPF stack has no room for one inside the other. */
static __always_inline void pc_send_out(struct __sk_buff *skb, struct pc_flow *flow,
					struct pc_ct *ct, bool is_reply)
{
	if (!pc_out(skb, flow, ct, is_reply))
		return;
	if (pc_out_is_translated(flow, ct, is_reply))
		ct->out = 0; /* the entry would follow no change of the path */
	else
		pc_out_again(skb, flow, ct);
}
