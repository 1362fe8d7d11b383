/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* device.h - the device at which a hook runs, and where its packet came from.
 * Gives pc_is_at_slave(), pc_came_in(), pc_check_ingress_device().
 *
 * An ipvlan slave is in its pod's network namespace, where ifindexes of this node mean nothing. So
 * each slave has a number, and the hook at the slave that sends stamps the packet with it:
 * tc_index, which survives up to the next hook. Hooks at slaves take the stamp for what other hooks
 * read from ingress_ifindex. Why: docs/decisions/0053-pods-without-a-host-side-device.md
 */
#pragma once
#include "flow.h"
#include "stamp.h"

static __always_inline __u32 pc_stamp_of(const struct __sk_buff *skb)
{
	return pc_stamp_read(skb->tc_index);
}

/* The hook runs in a pod's network namespace. */
static __always_inline bool pc_is_at_slave(const struct pc_flow *flow)
{
	return flow->device & PC_SLAVE;
}

/* Whether the packet came in by any device: this node did not generate it. */
static __always_inline bool pc_came_in(const struct __sk_buff *skb, const struct pc_flow *flow)
{
	return pc_is_at_slave(flow) ? flow->stamp != PC_STAMP_NODE : skb->ingress_ifindex;
}

/* At a slave: whether the stamp allows this sender; 0: no pod of this node. A slave's stamp allows
 * no other sender, as its pod can rewrite packets behind the hook.
 */
static __always_inline bool pc_stamp_allows(__u32 stamp, __u32 sender)
{
	if (stamp >= PC_STAMP_SLAVE)
		return sender == (PC_SLAVE | stamp);
	return stamp == PC_STAMP_PASSED ? !(sender & PC_SLAVE) : !sender;
}

/* Forwarded to a pod: a local pod's address may come in by that pod's device only. */
static __always_inline enum drop_reason
pc_check_ingress_device(const struct __sk_buff *skb, const struct pc_flow *flow, __u32 sender)
{
	bool is_right = pc_is_at_slave(flow) ? pc_stamp_allows(flow->stamp, sender)
					     : !sender || sender == skb->ingress_ifindex;

	return is_right ? PC_PASS : PC_DROP_SPOOFED_IP;
}
