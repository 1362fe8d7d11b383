/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* policy_bypass.h - tells the loader which bypassed connections the policy denies: it ends them.
 * Only in bundles that were compiled with --socket-programs; policy_run.h includes it.
 *
 * A bypassed connection whose ends only read sends no packet that a hook could decide.
 */
#pragma once
#include "policy_connect.h"
#include <linux/if_ether.h>

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

/* A frame with a connection's tuple behind its Ethernet header; dropped if the policy denies the
 * connection. The loader makes it (BPF_PROG_TEST_RUN): no device sees it.
 */
SEC("tc")
int pc_bypass_deny(struct __sk_buff *skb)
{
	struct pc_tuple tuple = {};

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &tuple, sizeof(tuple)))
		return TC_ACT_SHOT;
	return pc_bypass_is_denied(&tuple) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}
