/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sockets.bpf.c - cgroup hooks: processes of the node and of its pods reach Services.
 * If an IPv6 socket uses ::ffff:a.b.c.d, the last word is an IPv4 address.
 */
#include "bpf_iter.h"
#include "socket_family.h"
#include "sockets.h"

#define PC_GO_ON  1
#define PC_SAY_NO 0

static __always_inline int pc_socket_refuse(void)
{
	bpf_set_retval(PC_REFUSED);
	return PC_SAY_NO;
}

static __always_inline int pc_to4(struct bpf_sock_addr *ctx, bool keeps)
{
	struct pc_addr6 addr = {{ctx->user_ip4}};
	__be16 port = ctx->user_port;
	enum pc_socket_answer answer = pc_socket_to(ctx, PC_IPV4, &addr, &port, keeps);

	if (answer == PC_SOCKET_REFUSED)
		return pc_socket_refuse();
	if (answer == PC_SOCKET_CHANGED) {
		ctx->user_ip4 = addr.word[0];
		ctx->user_port = port;
	}
	return PC_GO_ON;
}

static __always_inline int pc_to6(struct bpf_sock_addr *ctx, bool keeps)
{
	bool mapped = pc_is_mapped(ctx);
	struct pc_addr6 addr = {};
	__be16 port = ctx->user_port;
	enum pc_socket_answer answer;

	pc_get6(ctx, mapped, &addr);
	answer = pc_socket_to(ctx, mapped ? PC_IPV4 : PC_IPV6, &addr, &port, keeps);
	if (answer == PC_SOCKET_REFUSED)
		return pc_socket_refuse();
	if (answer != PC_SOCKET_CHANGED)
		return PC_GO_ON;
	pc_put6(ctx, mapped, &addr);
	ctx->user_port = port;
	return PC_GO_ON;
}

static __always_inline int pc_from4(struct bpf_sock_addr *ctx)
{
	struct pc_addr6 addr = {{ctx->user_ip4}};
	__be16 port = ctx->user_port;

	if (pc_socket_from(ctx, PC_IPV4, &addr, &port)) {
		ctx->user_ip4 = addr.word[0];
		ctx->user_port = port;
	}
	return PC_GO_ON;
}

static __always_inline int pc_from6(struct bpf_sock_addr *ctx)
{
	bool mapped = pc_is_mapped(ctx);
	struct pc_addr6 addr = {};
	__be16 port = ctx->user_port;

	pc_get6(ctx, mapped, &addr);
	if (!pc_socket_from(ctx, mapped ? PC_IPV4 : PC_IPV6, &addr, &port))
		return PC_GO_ON;
	pc_put6(ctx, mapped, &addr);
	ctx->user_port = port;
	return PC_GO_ON;
}

SEC("cgroup/connect4")
int pc_connect4(struct bpf_sock_addr *ctx)
{
	return pc_to4(ctx, false);
}

SEC("cgroup/connect6")
int pc_connect6(struct bpf_sock_addr *ctx)
{
	return pc_to6(ctx, false);
}

SEC("cgroup/sendmsg4")
int pc_sendmsg4(struct bpf_sock_addr *ctx)
{
	return pc_to4(ctx, true);
}

SEC("cgroup/sendmsg6")
int pc_sendmsg6(struct bpf_sock_addr *ctx)
{
	return pc_to6(ctx, true);
}

SEC("cgroup/recvmsg4")
int pc_recvmsg4(struct bpf_sock_addr *ctx)
{
	return pc_from4(ctx);
}

SEC("cgroup/recvmsg6")
int pc_recvmsg6(struct bpf_sock_addr *ctx)
{
	return pc_from6(ctx);
}

SEC("cgroup/getpeername4")
int pc_getpeer4(struct bpf_sock_addr *ctx)
{
	return pc_from4(ctx);
}

SEC("cgroup/getpeername6")
int pc_getpeer6(struct bpf_sock_addr *ctx)
{
	return pc_from6(ctx);
}

static __always_inline void pc_list_gone(struct seq_file *seq, struct pc_socket_service *service)
{
	if (service && service->backend && !pc_backend_of(service->backend))
		bpf_seq_write(seq, service, sizeof(*service));
}

/* Lists the connections whose endpoint was removed, for the loader, which ends them. */
SEC("iter/bpf_sk_storage_map")
int pc_gone_sockets(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	pc_list_gone(ctx->meta->seq, ctx->value);
	return 0;
}

/* The same by open files. */
SEC("iter/task_file")
int pc_gone_files(struct bpf_iter__task_file *ctx)
{
	struct sock *sk = pc_sock_of_file(ctx);

	if (sk)
		pc_list_gone(ctx->meta->seq, bpf_sk_storage_get(&pc_socket_conns, sk, 0, 0));
	return 0;
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
