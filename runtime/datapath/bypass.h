/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bypass.h - the way of each message of a socket that was added to the bypass.
 * Gives pc_bypass_send(). It runs with the socket's lock.
 */
#pragma once
#include "bypass_add.h"
#include "bypass_tls.h"

/* A thread that entered recv() before the socket was added sees what the stack brings, and nothing
 * else. By then it waits, or has returned.
 */
#define PC_BYPASS_GRACE_SECONDS 2

/* Tells the other end what this one has read of what the stack brought. */
static __always_inline void pc_bypass_tell(struct pc_bypass_conn *conn, struct tcp_sock *tcp)
{
	__u64 read = PC_BYPASS_READ | tcp->copied_seq;

	if (read == conn->told || pc_bypass_is_waiting((struct sock *)tcp))
		return;
	if (!bpf_map_update_elem(&pc_bypass_read, &conn->key, &read, BPF_ANY))
		conn->told = read;
}

/* Whether a direction that is with the stack may enter the bypass. What the other end told is
 * forgotten once it is outdated: after 4 GiB the same number comes again.
 */
static __always_inline enum pc_bypass_by_stack pc_bypass_enter(struct pc_bypass_conn *conn,
							       struct tcp_sock *tcp)
{
	struct pc_bypass_key other = pc_bypass_other(&conn->key);
	__u64 *told = bpf_map_lookup_elem(&pc_bypass_read, &other);
	__u64 read = told ? *(volatile __u64 *)told : 0;

	conn->sent_seq = tcp->write_seq;
	if (read == (PC_BYPASS_READ | conn->sent_seq))
		return PC_BYPASS_NOT;
	if (told)
		__sync_val_compare_and_swap(told, read, 0);
	return PC_BYPASS_PENDING;
}

/* Keeps the conntrack entry alive, once a second, for a direction that returns to the stack. */
static __always_inline enum pc_bypass_by_stack pc_bypass_track(struct pc_bypass_conn *conn,
							       struct pc_flow *flow)
{
	struct pc_ct *ct;

	if (flow->now - conn->tracked < flow->second)
		return PC_BYPASS_NOT;
	conn->tracked = flow->now;
	ct = pc_bypass_ct(&conn->tuple, flow->now);
	if (!ct)
		return PC_BYPASS_UNTRACKED;
	flow->tuple.proto = IPPROTO_TCP;
	pc_ct_stay(ct, flow);
	return PC_BYPASS_NOT;
}

/* Whether a hook has decided a packet of the connection since the policy changed. */
static __always_inline bool pc_bypass_is_renewed(struct pc_bypass_conn *conn,
						 const struct pc_flow *flow)
{
	const struct pc_ct *ct = pc_bypass_ct(&conn->tuple, flow->now);

	if (!pc_bypass_is_allowed(ct, flow->epoch))
		return false;
	conn->epoch = flow->epoch;
	conn->egress_rule = ct->egress_rule;
	conn->ingress_rule = ct->ingress_rule;
	return true;
}

static __always_inline enum pc_bypass_by_stack
pc_bypass_may(const struct sk_msg_md *ctx, struct pc_bypass_conn *conn, struct tcp_sock *tcp)
{
	struct pc_flow flow = {};
	enum pc_bypass_by_stack reason;

	if (pc_bypass_is_tls(ctx, conn, tcp))
		return PC_BYPASS_TLS;
	pc_generation(&flow);
	if (conn->epoch != flow.epoch && !pc_bypass_is_renewed(conn, &flow))
		return PC_BYPASS_POLICY;
	if (!conn->is_bypassed || conn->sent_seq != tcp->write_seq) {
		if (flow.now - conn->since < (__u64)flow.second * PC_BYPASS_GRACE_SECONDS)
			return PC_BYPASS_PENDING;
		reason = pc_bypass_enter(conn, tcp);
		if (reason)
			return reason;
	}
	if (pc_bypass_is_behind(conn, ctx->size))
		return PC_BYPASS_UNREAD;
	return pc_bypass_track(conn, &flow);
}

/* A message goes to the other end's socket, or to the stack. */
static __always_inline void pc_bypass_send(struct sk_msg_md *ctx)
{
	struct pc_bypass_count *count = pc_bypass_counts();
	struct bpf_sock *sk = ctx->sk;
	enum pc_bypass_by_stack reason;
	struct pc_bypass_conn *conn;
	struct pc_bypass_key other;
	struct tcp_sock *tcp;

	conn = sk ? bpf_sk_storage_get(&pc_bypass_conns, sk, 0, 0) : 0;
	tcp = conn ? bpf_skc_to_tcp_sock(sk) : 0;
	if (!tcp || !count)
		return;
	pc_bypass_tell(conn, tcp);
	reason = pc_bypass_may(ctx, conn, tcp);
	other = pc_bypass_other(&conn->key);
	if (!reason &&
	    bpf_msg_redirect_hash(ctx, &pc_bypass_socks, &other, BPF_F_INGRESS) != SK_PASS)
		reason = PC_BYPASS_ALONE;
	if (reason) {
		if (conn->is_bypassed && reason < PC_BYPASS_REASONS)
			count->left[reason] += 1;
		conn->is_bypassed = false;
		return;
	}
	conn->is_bypassed = true;
	conn->messages += 1;
	conn->bytes += ctx->size;
	count->messages += 1;
	count->bytes += ctx->size;
}
