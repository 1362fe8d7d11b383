/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* slave.h - what differs at an ipvlan slave, in its pod's network namespace.
 * Gives pc_keep_on_parent() to from_pod, pc_check_neighbour() to to_pod.
 *
 * Not at slaves: the fast path and reassembly, as no device of the node is within reach; and the
 * sockets of the ends (opener.h), as lookups begin in the pod's namespace.
 */
#pragma once
#include "answer.h"
#include "device.h"
#include "endpoints.h"
#include "nat.h"
#include "neighbour.h"

/* A packet to another slave of the same parent gets the parent's MAC as destination: all slaves
 * have it, and ipvlan looks for a slave only then (ipvlan_xmit_mode_l2()). The pod may have sent to
 * its gateway's MAC, above all to a Service. `dst` is the packet's last address.
 */
__noinline int pc_keep_on_parent(struct __sk_buff *skb, struct pc_flow *flow)
{
	struct pc_endpoint to = {};
	struct pc_addr6 dst = {};
	int failed;

	if (!flow)
		return PC_DROP_MALFORMED;
	if (flow->tuple.family == PC_IPV4)
		failed = bpf_skb_load_bytes(skb, PC_IP4_DADDR_AT, &dst, 4);
	else
		failed = bpf_skb_load_bytes(skb, PC_IP6_DADDR_AT, &dst, sizeof(dst));
	if (failed)
		return PC_DROP_MALFORMED;
	pc_endpoint_at(flow->tuple.family, &dst, &to);
	if (!(to.ifindex & PC_SLAVE) || !pc_mac_eq(to.mac, flow->packet.smac))
		return PC_PASS;
	return pc_put(skb, 0, to.mac, PC_MAC_LEN) ? PC_PASS : PC_DROP_MALFORMED;
}

/* ARP, neighbour discovery or MLD that arrives at a slave. The sending pod may have rewritten it
 * behind its hook, so this checks the sender again.
 */
__noinline int pc_check_neighbour(struct __sk_buff *skb, struct pc_flow *flow)
{
	enum drop_reason reason;
	__u32 own;

	if (!flow || flow->stamp < PC_STAMP_SLAVE)
		return PC_PASS;
	if (pc_is_router_speech(flow))
		return PC_DROP_SPOOFED_ND;
	own = flow->device;
	flow->device = PC_SLAVE | flow->stamp;
	reason = flow->packet.ethertype == ETH_P_ARP ? pc_check_arp_sender(skb, flow)
						     : pc_check_nd_sender(skb, flow);
	flow->device = own;
	return reason;
}
