/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bpf_iter.h - the kernel's contexts of iterations over a map of socket storage, and over the open
 * files of all processes. The verifier knows the type of each pointer in them, so it would refuse
 * another layout. Gives pc_sock_of_file().
 *
 * Programs that list sockets exist for both. Some locked down kernels refuse those that go through
 * a map.
 */
#pragma once
#include "addr.h"

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

/* The field that is read; the loader writes in its offset. */
struct socket {
	struct sock *sk;
} __attribute__((preserve_access_index));

/* The socket behind an open file; 0: it is none. */
static __always_inline struct sock *pc_sock_of_file(struct bpf_iter__task_file *ctx)
{
	struct socket *socket = ctx->file ? bpf_sock_from_file(ctx->file) : 0;

	return socket ? socket->sk : 0;
}
