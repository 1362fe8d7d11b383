/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* host_snat.h - packets that the host translated to a node address and forwarded (host SNAT).
 * Gives pc_host_routed(), pc_is_host_snat(), pc_host_snat_passes(). The entry admits the peer's
 * replies to the stack, which sends them to the forwarded end. The host's mapping ends earlier or
 * later than the entry. So the entry never lets a packet through to a socket of the node, or from a
 * socket.
 */
#pragma once
#include "opener.h"
#include "related.h"

/* A connection of the node without a pod: only pc_host_routed() makes such an entry. */
static __always_inline bool pc_is_host_snat(const struct pc_ct *ct)
{
	return (ct->state & (PC_CT_NODE | PC_CT_NAT)) == PC_CT_NODE;
}

static __always_inline bool pc_node_takes_udp(struct __sk_buff *skb, struct pc_socket_at *at)
{
	struct bpf_sock *sk = bpf_sk_lookup_udp(skb, &at->tuple, at->size, at->netns, 0);

	if (sk)
		bpf_sk_release(sk);
	return sk;
}

/* A listening socket accepts no packet except a SYN. */
static __always_inline bool pc_node_takes_tcp(struct __sk_buff *skb, struct pc_socket_at *at)
{
	struct bpf_sock *sk = bpf_skc_lookup_tcp(skb, &at->tuple, at->size, at->netns, 0);
	bool listens;

	if (!sk)
		return false;
	listens = sk->state == PC_SOCKET_LISTEN;
	bpf_sk_release(sk);
	return !listens;
}

/* Whether the node has a socket that would accept the packet if the packet were for the node.
 * Verified once, on its own.
 */
__noinline int pc_node_takes(struct __sk_buff *skb, const struct pc_flow *flow)
{
	struct pc_socket_at at;

	if (!flow)
		return true;
	at = pc_socket_at(&flow->tuple, PC_FLOW_DST, BPF_F_CURRENT_NETNS);
	return flow->tuple.proto == IPPROTO_UDP ? pc_node_takes_udp(skb, &at)
						: pc_node_takes_tcp(skb, &at);
}

/* Whether the reply may be for the node instead. With SCTP and ICMP only an opening packet could
 * begin a flow, and that uses no entry. Protocols without ports give no evidence.
 */
static __always_inline bool pc_replies_to_node(struct __sk_buff *skb, const struct pc_flow *flow)
{
	if (flow->tuple.proto == IPPROTO_UDP || flow->tuple.proto == IPPROTO_TCP)
		return pc_node_takes(skb, flow);
	return !pc_l4_header(&flow->tuple);
}

/* Generated here. Forwarded fragments may have lost the device that they came by, and have no
 * socket.
 */
static __always_inline bool pc_is_of_node(const struct __sk_buff *skb)
{
	return !skb->ingress_ifindex && skb->sk;
}

/* The peer extends the idle time once. After that the forwarded end has to send. */
static __always_inline void pc_host_snat_heard(struct pc_ct *ct, const struct pc_flow *flow)
{
	__u32 news = pc_ct_news(flow, true);
	__u64 expires;

	if (!(ct->state & PC_CT_HEARD)) {
		if (pc_ct_note(ct, flow, true))
			__sync_fetch_and_or(&ct->state, PC_CT_HEARD);
		return;
	}
	if ((ct->state & news) != news)
		__sync_fetch_and_or(&ct->state, news);
	expires = flow->now + pc_ct_idle(flow, ct->state);
	if (expires < ct->expires)
		ct->expires = expires;
}

/* Whether the entry lets the packet pass. It does not if the packet is, or may be, the node's: then
 * no entry applies. A reset from the node says only that it has no such connection.
 */
static __always_inline bool pc_host_snat_passes(struct __sk_buff *skb, struct pc_flow *flow,
						const struct pc_ct_match *match)
{
	struct pc_ct *ct = match->at.ct;

	if (match->is_reply) {
		if (pc_replies_to_node(skb, flow))
			return false;
		pc_host_snat_heard(ct, flow);
		pc_frag_record(flow);
		return true;
	}
	if (pc_is_of_node(skb))
		return flow->packet.tcp_flags & PC_TCP_RST;
	if (ct->state & PC_CT_HEARD)
		__sync_fetch_and_and(&ct->state, ~PC_CT_HEARD);
	pc_ct_touch(&match->at, flow, false);
	pc_frag_record(flow);
	return true;
}

/* Admits replies like those of connections that the node opened. Our own answers also pass here,
 * and get no entry.
 */
__noinline int pc_host_routed(struct pc_flow *flow)
{
	if (!flow)
		return PC_DROP_NO_POLICY;
	if (pc_is_icmp_error(flow) || flow->packet.tcp_flags & PC_TCP_RST)
		return PC_PASS;
	if (!pc_ct_insert(flow, 0, 0, PC_CT_NODE))
		return PC_DROP_CT_FULL;
	pc_frag_record(flow);
	return PC_PASS;
}
