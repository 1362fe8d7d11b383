/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* policy_bypass.h - lists the bypassed connections that the policy denies, for the loader, which
 * ends them. Only in bundles that were compiled with --socket-programs; policy_run.h includes it.
 *
 * A bypassed connection whose ends only read sends no packet that a hook could decide.
 */
#pragma once
#include "bpf_iter.h"
#include "bypass_conn.h"
#include "policy_connect.h"

/* Whether the policy denies the connection to the two pods that its ends are now. Not global: 6.1
 * takes no field of a global function's argument as a map's key.
 */
static __noinline bool pc_bypass_is_denied(const struct pc_tuple *tuple)
{
	struct pc_decision decision = {};
	struct pc_flow flow = {};

	pc_generation(&flow);
	flow.tuple = *tuple;
	pc_endpoints_of(&flow);
	if (!flow.src.ifindex || !flow.dst.ifindex)
		return true;
	return pc_connect_ends_deny(&flow, &decision);
}

SEC("iter/bpf_sk_storage_map")
int pc_bypass_deny(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct pc_bypass_conn *conn = ctx->value;
	struct pc_tuple tuple;

	if (!conn)
		return 0;
	tuple = conn->tuple;
	if (pc_bypass_is_denied(&tuple))
		bpf_seq_write(ctx->meta->seq, &conn->key, sizeof(conn->key));
	return 0;
}
