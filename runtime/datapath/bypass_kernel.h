/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bypass_kernel.h - what the kernel knows of the sockets of a bypassed connection.
 * Gives pc_bypass_is_waiting(), pc_bypass_is_behind().
 *
 * The kernel bounds what the stack queues for a receiver, but not what a bypass does: the receive
 * queue would grow to the limit of all TCP sockets of the node.
 */
#pragma once
#include "bypass_map.h"
#include <bpf/bpf_core_read.h>

/* What a direction may have unread, in bytes and in messages: a message takes memory, too. */
#define PC_BYPASS_UNREAD_BYTES    (1 << 20)
#define PC_BYPASS_UNREAD_MESSAGES 128

#define PC_BYPASS_WAITERS 8

#define PC_PSOCK_FLAGS 7ULL /* in sk_user_data */

/* The fields of the kernel's structs that are read; the loader writes in their offsets. */
struct list_head {
	struct list_head *next;
} __attribute__((preserve_access_index));
struct wait_queue_head {
	struct list_head head;
} __attribute__((preserve_access_index));
struct wait_queue_entry {
	void *func;
	struct list_head entry;
} __attribute__((preserve_access_index));
struct socket_wq {
	struct wait_queue_head wait;
} __attribute__((preserve_access_index));
struct net {
	__u64 net_cookie;
} __attribute__((preserve_access_index));
typedef struct {
	struct net *net;
} possible_net_t;
struct sock_common {
	possible_net_t skc_net;
} __attribute__((preserve_access_index));
struct sock {
	struct sock_common __sk_common;
	struct socket_wq *sk_wq;
	void *sk_user_data;
} __attribute__((preserve_access_index));
struct inet_sock {
	struct sock sk;
} __attribute__((preserve_access_index));
struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const void *icsk_ulp_ops;
} __attribute__((preserve_access_index));
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 write_seq, copied_seq, data_segs_in, data_segs_out;
	__u64 bytes_received, bytes_acked;
} __attribute__((preserve_access_index));
struct sk_psock {
	struct list_head ingress_msg;
} __attribute__((preserve_access_index));
struct sk_msg_sg {
	__u32 size;
} __attribute__((preserve_access_index));
struct sk_msg {
	struct sk_msg_sg sg;
	struct list_head list;
} __attribute__((preserve_access_index));

/* Who waits in a blocking call, and not in a poll(), is woken by this function of the kernel. */
extern const void woken_wake_function __ksym __weak;

/* Whether a thread waits in a call on the socket, or may: a long list is not followed. The caller
 * has the socket's lock, so such a thread neither begins nor ends to wait meanwhile.
 */
static __always_inline bool pc_bypass_is_waiting(struct sock *sk)
{
	struct socket_wq *wq = BPF_CORE_READ(sk, sk_wq);
	struct list_head *head, *at;

	head = (void *)wq + bpf_core_field_offset(struct socket_wq, wait.head);
	at = head;
	for (int i = 0; i < PC_BYPASS_WAITERS; i++) {
		struct wait_queue_entry *entry;

		at = BPF_CORE_READ(at, next);
		if (at == head)
			return false;
		entry = (void *)at - bpf_core_field_offset(struct wait_queue_entry, entry);
		if (!at || BPF_CORE_READ(entry, func) == &woken_wake_function)
			return true;
	}
	return true;
}

/* Sums what is queued: true if it is too much. The queue may change meanwhile, so the sum is only
 * nearly right. No pointer that is read here is followed by anything but a checked read.
 */
static __always_inline bool pc_bypass_queue_is_full(struct pc_bypass_conn *conn,
						    struct list_head *head, __u32 size)
{
	struct list_head *at = head;
	__u32 messages, bytes = 0;

	for (messages = 0; messages < PC_BYPASS_UNREAD_MESSAGES; messages++) {
		struct sk_msg *msg;

		at = BPF_CORE_READ(at, next);
		if (at == head || !at)
			break;
		msg = (void *)at - bpf_core_field_offset(struct sk_msg, list);
		bytes += BPF_CORE_READ(msg, sg.size);
	}
	conn->read_bytes = conn->bytes - bytes;
	conn->read_messages = conn->messages - messages;
	return messages == PC_BYPASS_UNREAD_MESSAGES || bytes + size > PC_BYPASS_UNREAD_BYTES;
}

/* Whether the receiver has too much to read already for a message of this size. */
static __always_inline bool pc_bypass_is_behind(struct pc_bypass_conn *conn, __u32 size)
{
	struct sock *sk = (struct sock *)conn->peer;
	void *psock = (void *)((__u64)BPF_CORE_READ(sk, sk_user_data) & ~PC_PSOCK_FLAGS);
	struct list_head *head = psock + bpf_core_field_offset(struct sk_psock, ingress_msg);

	if (BPF_CORE_READ(head, next) == head) {
		conn->read_bytes = conn->bytes;
		conn->read_messages = conn->messages;
		return false;
	}
	if (conn->bytes - conn->read_bytes + size <= PC_BYPASS_UNREAD_BYTES &&
	    conn->messages - conn->read_messages < PC_BYPASS_UNREAD_MESSAGES)
		return false;
	return pc_bypass_queue_is_full(conn, head, size);
}
