/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* socket_family.h - the address that a process gives an IPv6 socket: it may be ::ffff:a.b.c.d.
 * Gives pc_is_mapped(), pc_get6(), pc_put6().
 */
#pragma once
#include "flow.h"

#define PC_MAPPED  bpf_htonl(0xffff) /* ::ffff:a.b.c.d */
#define PC_REFUSED (-111)            /* -ECONNREFUSED */

static __always_inline bool pc_is_mapped(const struct bpf_sock_addr *ctx)
{
	return !ctx->user_ip6[0] && !ctx->user_ip6[1] && ctx->user_ip6[2] == PC_MAPPED;
}

static __always_inline void pc_get6(const struct bpf_sock_addr *ctx, bool mapped,
				    struct pc_addr6 *addr)
{
	if (mapped) {
		addr->word[0] = ctx->user_ip6[3];
		return;
	}
	addr->word[0] = ctx->user_ip6[0];
	addr->word[1] = ctx->user_ip6[1];
	addr->word[2] = ctx->user_ip6[2];
	addr->word[3] = ctx->user_ip6[3];
}

static __always_inline void pc_put6(struct bpf_sock_addr *ctx, bool mapped,
				    const struct pc_addr6 *addr)
{
	if (mapped) {
		ctx->user_ip6[3] = addr->word[0];
		return;
	}
	ctx->user_ip6[0] = addr->word[0];
	ctx->user_ip6[1] = addr->word[1];
	ctx->user_ip6[2] = addr->word[2];
	ctx->user_ip6[3] = addr->word[3];
}
