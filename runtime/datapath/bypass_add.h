/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bypass_add.h - adds the two sockets of a connection to the bypass, if that pays.
 * Gives pc_bypass_consider(). The hook at the sender's device calls it by bypass_slot.h, for a
 * packet that the active policy lets pass.
 *
 * A bypass pays for requests and answers. It does not for a short connection, as the kernel needs
 * memory for each socket that is added. It does not for a stream, where the stack joins messages.
 */
#pragma once
#include "bypass_kernel.h"
#include "ct_state.h"
#include "endpoints.h"
#include "generation.h"

#define PC_BYPASS_EXCHANGES      8           /* requests and answers, at least */
#define PC_BYPASS_BULK           (128 << 10) /* bytes of both in one exchange, at most */
#define PC_TCP_ESTABLISHED_STATE 1           /* BPF_TCP_* of <linux/bpf.h> */

/* The sockets of the two ends. */
struct pc_bypass_pair {
	struct bpf_sock *sender, *receiver;
};

/* The conntrack entry, if it allows the connection to two pods of this node, and nothing was
 * translated. The tuple runs from the opener to the other end.
 */
static __always_inline struct pc_ct *pc_bypass_ct(const struct pc_tuple *tuple, __u64 now)
{
	struct pc_ct_at at = pc_ct_get(tuple, true);
	struct pc_ct *ct = at.ct;

	if (!ct || ct->back != at.back || ct->expires <= now || !pc_ct_is_decided(ct) ||
	    !ct->src.ifindex || !ct->dst.ifindex)
		return 0;
	return ct->state & (PC_CT_NODE | PC_CT_NAT | PC_CT_EITHER | PC_CT_CLAIMED | PC_CT_CROSSED |
			    PC_CT_RESET | PC_CT_FINS)
		   ? 0
		   : ct;
}

static __always_inline bool pc_bypass_is_pod(__u32 epoch, __u32 device)
{
	struct pc_bypass_pod key = {.epoch = epoch, .device = device};

	return bpf_map_lookup_elem(&pc_bypass_pods, &key);
}

static __always_inline bool pc_bypass_is_left_alone(__u32 epoch, __u32 rule)
{
	struct pc_bypass_rule key = {.epoch = epoch, .rule = rule};

	return bpf_map_lookup_elem(&pc_bypass_not, &key);
}

/* Whether the active policy has decided the entry, and its rules and pods may be bypassed. */
static __always_inline bool pc_bypass_is_allowed(const struct pc_ct *ct, __u32 epoch)
{
	return ct && ct->epoch == epoch && pc_bypass_is_pod(epoch, ct->src.ifindex) &&
	       pc_bypass_is_pod(epoch, ct->dst.ifindex) &&
	       !pc_bypass_is_left_alone(epoch, ct->egress_rule) &&
	       !pc_bypass_is_left_alone(epoch, ct->ingress_rule);
}

/* Requests and answers, of which neither is too large. */
static __always_inline bool pc_bypass_pays(const struct tcp_sock *tcp)
{
	__u64 exchanges =
	    tcp->data_segs_out < tcp->data_segs_in ? tcp->data_segs_out : tcp->data_segs_in;

	return exchanges >= PC_BYPASS_EXCHANGES &&
	       tcp->bytes_acked + tcp->bytes_received <= exchanges * PC_BYPASS_BULK;
}

/* The socket in the pod's network namespace to which the tuple leads. The caller releases it. */
static __always_inline struct bpf_sock *pc_bypass_sock(struct __sk_buff *skb,
						       const struct pc_tuple *t, bool is_sender,
						       const struct pc_endpoint *ep)
{
	const struct pc_addr6 *from = is_sender ? &t->daddr : &t->saddr;
	const struct pc_addr6 *to = is_sender ? &t->saddr : &t->daddr;
	__be16 sport = is_sender ? t->dport : t->sport, dport = is_sender ? t->sport : t->dport;
	__u64 netns = (ep->flags >> PC_ENDPOINT_NETNS_SHIFT) - 1;
	struct bpf_sock_tuple at = {};

	if (t->family == PC_IPV4) {
		at.ipv4.saddr = from->word[0];
		at.ipv4.daddr = to->word[0];
		at.ipv4.sport = sport;
		at.ipv4.dport = dport;
		return bpf_sk_lookup_tcp(skb, &at, sizeof(at.ipv4), netns, 0);
	}
	__builtin_memcpy(at.ipv6.saddr, from, sizeof(*from));
	__builtin_memcpy(at.ipv6.daddr, to, sizeof(*to));
	at.ipv6.sport = sport;
	at.ipv6.dport = dport;
	return bpf_sk_lookup_tcp(skb, &at, sizeof(at.ipv6), netns, 0);
}

/* Whether the socket may be added: it is connected, and no other protocol wants its data (as the
 * kernel's TLS).
 */
static __always_inline bool pc_bypass_is_free(struct bpf_sock *sk)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	return tcp && sk->state == PC_TCP_ESTABLISHED_STATE && !tcp->inet_conn.icsk_ulp_ops &&
	       !bpf_sk_storage_get(&pc_bypass_conns, sk, 0, 0);
}

/* Adds one socket; its messages go by the stack until the other end's is there, too. */
static __always_inline bool pc_bypass_add_one(struct bpf_sock *sk, struct bpf_sock *other,
					      struct pc_bypass_conn *conn)
{
	conn->peer = (__u64)bpf_skc_to_tcp_sock(other); /* it begins with its struct sock */
	return bpf_sk_storage_get(&pc_bypass_conns, sk, conn, BPF_SK_STORAGE_GET_F_CREATE) &&
	       !bpf_map_update_elem(&pc_bypass_socks, &conn->key, sk, BPF_NOEXIST);
}

static __always_inline void pc_bypass_add_both(const struct pc_flow *flow, const struct pc_ct *ct,
					       struct pc_bypass_pair *pair, bool is_reply)
{
	struct pc_bypass_count *count = pc_bypass_counts();
	struct pc_bypass_conn conn = {
	    .key.connection = bpf_ktime_get_ns() << 8 | (bpf_get_smp_processor_id() & 0xff),
	    .since = flow->now,
	    .tracked = flow->now,
	    .tuple = flow->tuple,
	    .epoch = flow->epoch,
	    .egress_rule = ct->egress_rule,
	    .ingress_rule = ct->ingress_rule,
	};
	bool added;

	conn.key.is_opener = !is_reply;
	added = pc_bypass_add_one(pair->sender, pair->receiver, &conn);
	conn.key.is_opener = is_reply;
	if (added && pc_bypass_add_one(pair->receiver, pair->sender, &conn) && count)
		count->connections += 1;
}

/* Whether both ends are pods of this node with known network namespaces, and not the same. */
static __always_inline bool pc_bypass_are_pods(const struct pc_flow *flow)
{
	return flow->src.ifindex && flow->dst.ifindex && flow->src.ifindex != flow->dst.ifindex &&
	       flow->src.flags >> PC_ENDPOINT_NETNS_SHIFT &&
	       flow->dst.flags >> PC_ENDPOINT_NETNS_SHIFT;
}

/* The entry of the flow's connection, if it may be bypassed; turns the flow to the opener's
 * direction.
 */
static __always_inline struct pc_ct *pc_bypass_entry(struct pc_flow *flow, bool *is_reply)
{
	struct pc_ct *ct = pc_bypass_ct(&flow->tuple, flow->now);

	*is_reply = !ct;
	if (!ct) {
		pc_flow_turn(flow);
		ct = pc_bypass_ct(&flow->tuple, flow->now);
	}
	return pc_bypass_is_allowed(ct, flow->epoch) ? ct : 0;
}

static __always_inline void pc_bypass_consider(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_bypass_pair pair;
	const struct pc_ct *ct;
	struct tcp_sock *tcp;
	bool is_reply;

	if (flow->tuple.proto != IPPROTO_TCP)
		return;
	pc_endpoints_of(flow);
	if (!pc_bypass_are_pods(flow))
		return;
	pair.sender = pc_bypass_sock(skb, &flow->tuple, true, &flow->src);
	if (!pair.sender)
		return;
	tcp = bpf_skc_to_tcp_sock(pair.sender);
	if (tcp && pc_bypass_pays(tcp) && pc_bypass_is_free(pair.sender)) {
		pair.receiver = pc_bypass_sock(skb, &flow->tuple, false, &flow->dst);
		if (pair.receiver) {
			if (pc_bypass_is_free(pair.receiver)) {
				ct = pc_bypass_entry(flow, &is_reply);
				if (ct)
					pc_bypass_add_both(flow, ct, &pair, is_reply);
			}
			bpf_sk_release(pair.receiver);
		}
	}
	bpf_sk_release(pair.sender);
}
