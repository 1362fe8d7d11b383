/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bypass_tls.h - a connection that begins TLS after it was added returns to the stack.
 * Gives pc_bypass_is_tls().
 *
 * The kernel's TLS keeps the psock. It runs the sk_msg program on plaintext, before it encrypts: a
 * redirected message would not be encrypted. Its recvmsg returns what is in ingress_msg as
 * plaintext: what was redirected before the receiver got its keys would not be decrypted. So a
 * direction leaves the bypass with the first message of a TLS handshake, before there are keys.
 */
#pragma once
#include "bypass_kernel.h"

/* The first bytes of a TLS record. */
struct pc_tls_record {
	__u8 type;
	__u8 major; /* of the version: 3 from SSL 3.0 to TLS 1.3 */
};
#define PC_TLS_HANDSHAKE 22
#define PC_TLS_MAJOR     3

static __always_inline bool pc_bypass_is_handshake(const struct sk_msg_md *ctx)
{
	const struct pc_tls_record *record = ctx->data;

	return (void *)(record + 1) <= ctx->data_end && record->type == PC_TLS_HANDSHAKE &&
	       record->major == PC_TLS_MAJOR;
}

/* Whether the direction has begun TLS, or the kernel's TLS has the socket of an end. The peer may
 * be gone: then this is a checked read of other memory, and a redirect fails.
 */
static __always_inline bool pc_bypass_is_tls(const struct sk_msg_md *ctx,
					     struct pc_bypass_conn *conn,
					     const struct tcp_sock *tcp)
{
	const struct tcp_sock *peer = (const struct tcp_sock *)conn->peer;

	if (pc_bypass_is_handshake(ctx))
		conn->is_tls = true;
	return conn->is_tls || tcp->inet_conn.icsk_ulp_ops ||
	       BPF_CORE_READ(peer, inet_conn.icsk_ulp_ops);
}
