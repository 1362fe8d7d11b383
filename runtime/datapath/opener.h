/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* opener.h - which end has opened the connection of a packet that finds no entry and is no SYN.
 * Gives pc_ask_new(), pc_ask_again() to the hooks, pc_node_has_opened() to to_pod.
 *
 * The sockets of the ends tell: of the two, one has connected and the other has accepted. A port
 * number tells nothing, as a pod chooses its own; nor does a socket that listens while no
 * connection has this packet's tuple, as a pod could send what it likes by its side. Where the
 * sockets do not tell, the packet passes if it is allowed whichever end has opened the connection.
 * Why: docs/decisions/0044-which-end-opened-it.md
 */
#pragma once
#include "ct_decided.h"
#include "endpoints.h"
#include "fragments.h"
#include "generation.h"
#include "host_end.h"

#define PC_SOCKET_SYN_SENT 2 /* BPF_TCP_* of <linux/bpf.h> */
#define PC_SOCKET_LISTEN   10
#define PC_SOCKET_SYN_RECV 12

#define PC_FIRST_EPOCH 1 /* nothing was loaded before */

/* What an end's socket says. */
enum pc_socket { PC_SOCKET_SILENT = 0, PC_SOCKET_CONNECTED, PC_SOCKET_ACCEPTED };

/* The end of a flow that is the own one, or has opened it; the node is the destination. */
enum pc_flow_end { PC_FLOW_SRC = 0, PC_FLOW_DST, PC_FLOW_NONE, PC_FLOW_NODE };

/* The kernel's own, as far as it is read; the loader puts in where this kernel has it. */
struct sock {
	__u32 sk_max_ack_backlog;
} __attribute__((preserve_access_index));
struct inet_sock {
	struct sock sk;
} __attribute__((preserve_access_index));
struct inet_connection_sock {
	struct inet_sock icsk_inet;
} __attribute__((preserve_access_index));
struct tcp_sock {
	struct inet_connection_sock inet_conn;
} __attribute__((preserve_access_index));

struct pc_socket_at {
	struct bpf_sock_tuple tuple; /* as a packet to the end has it */
	__u64 netns;
	__u32 size;
};

static __always_inline struct pc_socket_at pc_socket_at(const struct pc_tuple *t,
							enum pc_flow_end own, __u64 netns)
{
	const struct pc_addr6 *from = own == PC_FLOW_DST ? &t->saddr : &t->daddr;
	const struct pc_addr6 *to = own == PC_FLOW_DST ? &t->daddr : &t->saddr;
	__be16 sport = own == PC_FLOW_DST ? t->sport : t->dport;
	__be16 dport = own == PC_FLOW_DST ? t->dport : t->sport;
	struct pc_socket_at at = {.netns = netns};

	if (t->family == PC_IPV4) {
		at.tuple.ipv4.saddr = from->word[0];
		at.tuple.ipv4.daddr = to->word[0];
		at.tuple.ipv4.sport = sport;
		at.tuple.ipv4.dport = dport;
		at.size = sizeof(at.tuple.ipv4);
		return at;
	}
	__builtin_memcpy(at.tuple.ipv6.saddr, from, sizeof(*from));
	__builtin_memcpy(at.tuple.ipv6.daddr, to, sizeof(*to));
	at.tuple.ipv6.sport = sport;
	at.tuple.ipv6.dport = dport;
	at.size = sizeof(at.tuple.ipv6);
	return at;
}

/* The tuple with no port at the other end: only what listens has that. */
static __always_inline bool pc_socket_listens(struct __sk_buff *skb, struct pc_socket_at *at)
{
	struct bpf_sock *sk;
	bool listens;

	if (at->size == sizeof(at->tuple.ipv4))
		at->tuple.ipv4.sport = 0;
	else
		at->tuple.ipv6.sport = 0;
	sk = bpf_sk_lookup_tcp(skb, &at->tuple, at->size, at->netns, 0);
	if (!sk)
		return false;
	listens = sk->state == PC_SOCKET_LISTEN;
	bpf_sk_release(sk);
	return listens;
}

/* The packet goes to this end of the flow. */
static __always_inline bool pc_is_sent_to(const struct pc_flow *flow, enum pc_flow_end own)
{
	return (own == PC_FLOW_DST) != flow->is_reply;
}

/* A pod can make its own stack accept what no other end has sent, by a raw socket. So what it sends
 * is no answer on the word of its own socket, but under the first load, which ends no connection
 * that it allows. What is sent to it may open a connection all the same.
 */
static __always_inline int pc_socket_accepted(const struct pc_flow *flow, enum pc_flow_end own)
{
	return pc_is_sent_to(flow, own) || flow->epoch == PC_FIRST_EPOCH ? PC_SOCKET_ACCEPTED
									 : PC_SOCKET_SILENT;
}

/* Before it is answered a SYN says nothing about data: those may be of an older connection. */
static __always_inline int pc_socket_connects(const struct pc_flow *flow, enum pc_flow_end own)
{
	return pc_is_sent_to(flow, own) && flow->tcp_flags & (PC_TCP_SYN | PC_TCP_RST)
		   ? PC_SOCKET_CONNECTED
		   : PC_SOCKET_SILENT;
}

/* A socket that was accepted has the backlog of the one that listened, one that has connected has
 * none: that and a listening socket have to say the same. Verified once, by itself.
 */
__noinline int pc_socket_says(struct __sk_buff *skb, const struct pc_flow *flow, __u32 own,
			      __u64 netns)
{
	struct pc_socket_at at;
	struct tcp_sock *tcp;
	__u32 state, backlog;
	struct bpf_sock *sk;
	bool listens;

	if (!flow)
		return PC_SOCKET_SILENT;
	at = pc_socket_at(&flow->t, own, netns);
	sk = bpf_skc_lookup_tcp(skb, &at.tuple, at.size, at.netns, 0);
	if (!sk)
		return PC_SOCKET_SILENT;
	state = sk->state;
	tcp = bpf_skc_to_tcp_sock(sk);
	backlog = tcp ? tcp->inet_conn.icsk_inet.sk.sk_max_ack_backlog : 0;
	bpf_sk_release(sk);
	if (state == PC_SOCKET_SYN_RECV)
		return pc_socket_accepted(flow, own);
	if (!tcp || state == PC_SOCKET_LISTEN)
		return PC_SOCKET_SILENT;
	if (state == PC_SOCKET_SYN_SENT)
		return pc_socket_connects(flow, own);
	listens = pc_socket_listens(skb, &at);
	if (listens == !backlog)
		return PC_SOCKET_SILENT;
	return listens ? pc_socket_accepted(flow, own) : PC_SOCKET_CONNECTED;
}

/* Of a pod of this node, in its network namespace. */
static __always_inline int pc_pod_says(struct __sk_buff *skb, const struct pc_flow *flow,
				       enum pc_flow_end own)
{
	const struct pc_endpoint *ep = own == PC_FLOW_DST ? &flow->dst : &flow->src;
	__u32 netns = ep->flags >> PC_ENDPOINT_NETNS;

	if (!ep->ifindex || !netns)
		return PC_SOCKET_SILENT;
	return pc_socket_says(skb, flow, own, netns - 1);
}

/* The end that has opened the flow's connection; PC_FLOW_NONE where its sockets do not tell, or
 * contradict each other. Ends that are filled in.
 */
__noinline int pc_flow_opener(struct __sk_buff *skb, const struct pc_flow *flow)
{
	int src, dst;

	if (!flow || flow->t.proto != IPPROTO_TCP)
		return PC_FLOW_NONE;
	src = pc_pod_says(skb, flow, PC_FLOW_SRC);
	dst = pc_pod_says(skb, flow, PC_FLOW_DST);
	if (flow->dst.ifindex <= PC_HOST_DEVICE)
		dst = pc_socket_says(skb, flow, PC_FLOW_DST, BPF_F_CURRENT_NETNS);
	if (flow->dst.ifindex <= PC_HOST_DEVICE && dst == PC_SOCKET_CONNECTED)
		return PC_FLOW_NODE;
	if (src == dst)
		return PC_FLOW_NONE;
	return src == PC_SOCKET_CONNECTED || dst == PC_SOCKET_ACCEPTED ? PC_FLOW_SRC : PC_FLOW_DST;
}

/* Whether the node has opened what it sends in the middle of: its socket tells. */
static __always_inline bool pc_node_has_opened(struct __sk_buff *skb, const struct pc_flow *flow)
{
	return flow->t.proto == IPPROTO_TCP &&
	       pc_socket_says(skb, flow, PC_FLOW_SRC, BPF_F_CURRENT_NETNS) == PC_SOCKET_CONNECTED;
}

/* A pod answers on a connection that the node has opened, which always passes (semantics A22). A
 * function of its own for its stack.
 */
__noinline int pc_node_opened(struct pc_flow *flow)
{
	if (!flow)
		return PC_DROP_CT_FULL;
	pc_flow_turn(flow);
	flow->src.ifindex = 0; /* also of a node under host policy */
	if (!pc_ct_insert(flow, 0, 0, PC_CT_NODE))
		return PC_DROP_CT_FULL;
	pc_frag_record(flow);
	return PC_PASS;
}

/* Asks the policy about a flow whose opener no entry tells; does not return then. */
static __always_inline enum drop_reason pc_ask_unknown(struct __sk_buff *skb, struct pc_flow *flow,
						       __u32 slot)
{
	int opener = pc_flow_opener(skb, flow);

	if (opener == PC_FLOW_NODE)
		return pc_node_opened(flow);
	if (opener == PC_FLOW_NONE) {
		flow->opener = PC_OPENER_PROBE;
		flow->slot = slot & PC_STATE_SLOT;
	}
	if (opener != PC_FLOW_SRC)
		pc_flow_turn(flow);
	return pc_ask_policy(skb, slot);
}

/* Asks about a packet that finds no entry. */
static __always_inline enum drop_reason pc_ask_new(struct __sk_buff *skb, struct pc_flow *flow,
						   __u32 slot)
{
	if (pc_has_opening(flow->t.proto) && !flow->opens)
		return pc_ask_unknown(skb, flow, slot);
	return pc_ask_policy(skb, slot);
}

/* Asks about a connection that another policy has decided; the flow is in its direction. */
static __always_inline enum drop_reason pc_ask_again(struct __sk_buff *skb, struct pc_flow *flow,
						     const struct pc_ct_match *match, __u32 slot)
{
	bool is_known = pc_ct_tells_opener(match);

	if (!match->at.is_kept)
		pc_ct_hold(flow);
	return is_known ? pc_ask_policy(skb, slot) : pc_ask_unknown(skb, flow, slot);
}
