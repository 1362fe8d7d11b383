/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* forward_out.h - from a pod to somebody who is not of this node, past the host's stack.
 * Gives pc_is_sent_out(), pc_send_out() to from_pod, pc_out_learn() to to_uplink, which sees such
 * packets however they got there. What the stack has put before a packet that left unchanged is
 * what the next ones get; the tables of routes and neighbours are asked again every second or so.
 * Why: docs/decisions/0033-past-the-stack-to-other-nodes.md
 */
#pragma once
#include "forward.h"
#include "outside_map.h"

/* Of pc_ct's `out`: the uplink, as 1 + its place in `past` of outside_map.h, and when the way was
 * looked at, in 256 ticks.
 */
#define PC_OUT_UPLINK 0x0f
#define PC_OUT_TIME   0xf0
#define PC_OUT_NEVER  0x0f /* no uplink's place: the route takes less than the device */

#define PC_OUT_IPV4 2 /* AF_INET, AF_INET6 of <sys/socket.h>, which is not for BPF */
#define PC_OUT_IPV6 10

static __always_inline __u8 pc_out_time(const struct pc_flow *flow)
{
	return flow->now >> 8 << 4 & PC_OUT_TIME;
}

/* The bit of `peers` that says whether what the sender sends may be handed over at all. */
static __always_inline __u8 pc_out_sender(const struct pc_ct_match *match)
{
	return match->is_reply ? PC_DECIDED_DST : PC_DECIDED_SRC;
}

/* TCP passes the stack both ways or not at all: connection tracking that sees one way alone takes
 * its packets for nobody's, and firewalls drop those.
 */
static __always_inline bool pc_is_sent_out(const struct pc_flow *flow,
					   const struct pc_ct_match *match)
{
	const struct pc_ct *ct = match->at.ct;
	__u32 other = match->is_reply ? PC_CT_CAME_DST : PC_CT_CAME_SRC;

	return ct->out && !pc_ct_receiver(match)->ifindex && ct->peers & pc_out_sender(match) &&
	       (ct->state & other || flow->t.proto != IPPROTO_TCP);
}

/* The uplink's device; 0: the last load has none in that place. */
static __always_inline __u32 pc_out_device(const struct pc_ct *ct)
{
	const struct pc_outside *outside = pc_outside_now();
	__u32 place = (ct->out & PC_OUT_UPLINK) - 1;

	return outside && place < PC_UPLINKS ? outside->past[place] : 0;
}

/* The way to the receiver as it is now; true if it is by the device. */
static __always_inline bool pc_out_is_right(struct __sk_buff *skb, const struct pc_flow *flow,
					    struct bpf_fib_lookup *fib, __u32 device)
{
	int found;

	fib->ifindex = skb->ifindex;
	fib->l4_protocol = flow->t.proto;
	fib->sport = flow->t.sport;
	fib->dport = flow->t.dport;
	fib->tot_len = 1; /* asks for the route's MTU */
	if (flow->t.family == PC_IPV4) {
		fib->family = PC_OUT_IPV4;
		fib->ipv4_src = flow->t.saddr.word[0];
		fib->ipv4_dst = flow->t.daddr.word[0];
	} else {
		fib->family = PC_OUT_IPV6;
		__builtin_memcpy(fib->ipv6_src, &flow->t.saddr, sizeof(fib->ipv6_src));
		__builtin_memcpy(fib->ipv6_dst, &flow->t.daddr, sizeof(fib->ipv6_dst));
	}
	found = bpf_fib_lookup(skb, fib, sizeof(*fib), 0);
	return (found == BPF_FIB_LKUP_RET_SUCCESS || found == BPF_FIB_LKUP_RET_NO_NEIGH) &&
	       fib->ifindex == device;
}

/* As the kernel finds the neighbour, who is kept in its table by that. to_uplink learns from this
 * packet, too. Where the way has changed, it is the stack's again. Verified once, by itself, as the
 * next one.
 */
__noinline int pc_out_again(struct __sk_buff *skb, struct pc_flow *flow, struct pc_ct *ct)
{
	struct bpf_fib_lookup fib = {};
	struct bpf_redir_neigh next = {};
	struct pc_ct_end as_it_is = {};
	__u32 device, mtu = 0;

	if (!flow || !ct)
		return 0;
	device = pc_out_device(ct);
	bpf_check_mtu(skb, device, &mtu, 0, 0);
	if (!device || !pc_out_is_right(skb, flow, &fib, device)) {
		ct->out = 0;
		return 0;
	}
	if (fib.mtu_result < mtu) {
		ct->out = PC_OUT_NEVER;
		return 0;
	}
	next.nh_family = fib.family;
	__builtin_memcpy(next.ipv6_nh, fib.ipv6_dst, sizeof(next.ipv6_nh));
	if (!pc_readdress(skb, flow, &as_it_is))
		return 0;
	skb->mark = 0;
	flow->forward_to = device | PC_SENT;
	bpf_redirect_neigh(device, &next, sizeof(next), 0);
	return 0;
}

/* The time comes around, every 4096 ticks: who has said nothing for long is not taken for one that
 * asked just now.
 */
static __always_inline bool pc_out_was_silent(const struct pc_flow *flow, const struct pc_ct *ct)
{
	return ct->expires + 2 * flow->second < flow->now + pc_ct_idle(flow, ct->state);
}

/* Sets forward_to, unless the packet is one that the stack has to see; the tuple is that of what
 * leaves. 1: pc_out_again() is to be asked.
 */
__noinline int pc_out(struct __sk_buff *skb, struct pc_flow *flow, struct pc_ct *ct, bool is_reply)
{
	const struct pc_ct_end *to;
	__u32 device, mtu = 0;

	if (!flow || !ct || skb->pkt_type != PACKET_HOST || skb->mark || !pc_is_plain(flow))
		return 0; /* somebody before us has marked it for the stack */
	to = is_reply ? &ct->src : &ct->dst;
	device = pc_out_device(ct);
	if (!device || device == skb->ifindex ||
	    bpf_check_mtu(skb, device, &mtu, 0, BPF_MTU_CHK_SEGS) != BPF_MTU_CHK_RET_SUCCESS)
		return 0;
	if ((ct->out & PC_OUT_TIME) != pc_out_time(flow) || pc_out_was_silent(flow, ct))
		return 1;
	if (!pc_readdress(skb, flow, to))
		return 0;
	skb->mark = 0;
	flow->forward_to = device | PC_SENT;
	bpf_redirect(device, 0);
	return 0;
}

/* One after the other, as the stack has no room for one inside the other. */
static __always_inline void pc_send_out(struct __sk_buff *skb, struct pc_flow *flow,
					struct pc_ct *ct, bool is_reply)
{
	if (pc_out(skb, flow, ct, is_reply))
		pc_out_again(skb, flow, ct);
}
