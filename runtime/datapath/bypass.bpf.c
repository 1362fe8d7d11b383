/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bypass.bpf.c - TCP data between two pods of this node goes from socket to socket. */
#include "bpf_iter.h"
#include "bypass.h"

/* Called by the hook at the device of the pod that sends (bypass_slot.h), which lets the packet
 * pass. Ends the hook as that would.
 */
SEC("tc")
int pc_bypass_add(struct __sk_buff *skb)
{
	struct pc_flow *flow = pc_flow_scratch();

	if (!flow)
		return pc_tc_action(PC_DROP_NO_POLICY);
	pc_bypass_consider(skb, flow);
	if (flow->action.forward_to)
		return bpf_redirect_peer(flow->action.forward_to, 0);
	return pc_finish(flow, PC_PASS);
}

/* On each message of a socket in pc_bypass_socks. */
SEC("sk_msg")
int pc_bypass_msg(struct sk_msg_md *ctx)
{
	pc_bypass_send(ctx);
	return SK_PASS;
}

static __always_inline void pc_list_bypassed(struct seq_file *seq, struct sock *sk,
					     struct pc_bypass_conn *conn)
{
	if (!conn || !sk)
		return;
	conn->netns = sk->__sk_common.skc_net.net->net_cookie;
	conn->socket = bpf_get_socket_cookie(sk);
	bpf_seq_write(seq, conn, sizeof(*conn));
}

/* Lists the sockets that were added, for the loader. */
SEC("iter/bpf_sk_storage_map")
int pc_bypass_list(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	pc_list_bypassed(ctx->meta->seq, ctx->sk, ctx->value);
	return 0;
}

/* The same by open files. */
SEC("iter/task_file")
int pc_bypass_files(struct bpf_iter__task_file *ctx)
{
	struct sock *sk = pc_sock_of_file(ctx);

	if (sk)
		pc_list_bypassed(ctx->meta->seq, sk,
				 bpf_sk_storage_get(&pc_bypass_conns, sk, 0, 0));
	return 0;
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
