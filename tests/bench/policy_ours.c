/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* policy_ours.c - the compiled policy program, asked about the benchmark's flows.
 * POLICY is the source with pc_egress(): the generated C, or the shell that LLVM fills.
 */
#include "flow.h"
#include "endpoints.h"
#include POLICY
#include "policy_bench.h"

static __always_inline int answer(struct __sk_buff *skb, const struct pc_flow *flow)
{
	__u32 rule;

	return pc_end_allows(skb, pc_egress(flow, pc_service(flow)), &rule) ? 1 : 2;
}

/* The ends are known, as they are when the hooks ask. */
SEC("tc")
int b_verdict(struct __sk_buff *skb)
{
	struct pc_flow *flow = bench_next();

	return flow ? answer(skb, flow) : 0;
}

/* The other end is an address, and looked up first. */
SEC("tc")
int b_looked_up(struct __sk_buff *skb)
{
	struct pc_flow *flow = bench_next();

	if (!flow)
		return 0;
	pc_endpoint_at(flow->tuple.family, &flow->tuple.daddr, &flow->dst);
	return answer(skb, flow);
}
