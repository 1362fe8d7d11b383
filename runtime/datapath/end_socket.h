/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* end_socket.h - what the socket of a flow's end says about which end opened the connection.
 * Gives pc_socket_says(). Why: docs/decisions/0044-which-end-opened-it.md
 */
#pragma once
#include "flow.h"
#include "parse_l4.h"

#define PC_SOCKET_SYN_SENT 2 /* BPF_TCP_* of <linux/bpf.h> */
#define PC_SOCKET_LISTEN   10
#define PC_SOCKET_SYN_RECV 12

#define PC_FIRST_EPOCH 1 /* nothing was loaded before */

/* What an end's socket says. */
enum pc_socket {
	PC_SOCKET_SILENT = 0,
	PC_SOCKET_CONNECTED,
	PC_SOCKET_ACCEPTED,
	PC_SOCKET_CLAIMS, /* that it was accepted, which its own pod may have forged */
};

/* The own end of a flow, or the end that opened it; PC_FLOW_NODE: the node is the destination. */
enum pc_flow_end { PC_FLOW_SRC = 0, PC_FLOW_DST, PC_FLOW_NONE, PC_FLOW_NODE };

/* The fields of the kernel's struct that are read; the loader writes in their offsets. */
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
	struct bpf_sock_tuple tuple; /* the tuple of a packet to the end */
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

/* The lookup tuple has no port for the other end: only a listening socket matches it. */
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

/* Whether the packet goes to this end of the flow. */
static __always_inline bool pc_is_sent_to(const struct pc_flow *flow, enum pc_flow_end own)
{
	return (own == PC_FLOW_DST) != flow->is_reply;
}

/* With a raw socket a pod can make its own stack accept what no other end sent. So an accepted
 * socket is no evidence for packets that it sends; nor for a reset that it gets, as a stack resets
 * unknown connections. Under the first load it is a claim, which keeps open connections.
 */
static __always_inline int pc_socket_accepted(const struct pc_flow *flow, enum pc_flow_end own)
{
	if (!pc_is_sent_to(flow, own))
		return flow->epoch == PC_FIRST_EPOCH ? PC_SOCKET_CLAIMS : PC_SOCKET_SILENT;
	return flow->packet.tcp_flags & PC_TCP_RST ? PC_SOCKET_CLAIMS : PC_SOCKET_ACCEPTED;
}

/* Before a SYN-ACK a SYN says nothing about data, which may belong to an older connection. */
static __always_inline int pc_socket_connects(const struct pc_flow *flow, enum pc_flow_end own)
{
	return pc_is_sent_to(flow, own) && flow->packet.tcp_flags & (PC_TCP_SYN | PC_TCP_RST)
		   ? PC_SOCKET_CONNECTED
		   : PC_SOCKET_SILENT;
}

/* An accepted socket has the backlog of its listener, and a connected one has none. Both the
 * backlog and a lookup of a listening socket must agree. Verified once, on its own.
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
	at = pc_socket_at(&flow->tuple, own, netns);
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
