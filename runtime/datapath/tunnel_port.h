/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* tunnel_port.h - the tunnel's UDP port, to which only nodes may send.
 * Gives pc_is_to_tunnel() for packets of pods, pc_is_forwarded_to_tunnel() for packets that leave.
 *
 * A node trusts a tunnel packet by its outer source address, and SNAT gives a pod's packet a node's
 * address on the way out. So the port is reserved for the cluster, whatever the destination, and in
 * replies too: a flow may have been opened from the port.
 */
#pragma once
#include "flow.h"
#include <linux/in.h>

#define PC_TUNNEL_PORT 8477 /* of runtime/devices/tunnel.py */

/* The mark of our own tunnel's IPv6 packets. In IPv4 the kernel clears ingress_ifindex there, in
 * IPv6 not always (udp_tunnel6_xmit_skb()). No bits of kube-proxy's and Cilium's, and no forwarded
 * mark. */
#define PC_TUNNEL_MARK 0x70642024

static __always_inline bool pc_is_tunnel_port(__u8 proto, __be16 port)
{
	return proto == IPPROTO_UDP && port == bpf_htons(PC_TUNNEL_PORT);
}

/* For a packet in its own direction. A later fragment has no port, and follows its first one. */
static __always_inline bool pc_is_to_tunnel(const struct pc_flow *flow)
{
	return pc_is_tunnel_port(flow->tuple.proto, flow->tuple.dport);
}

/* At an uplink: true if the node forwards the packet, false if it generated the packet. A separate
 * function, as the hook's stack is full.
 */
__noinline int pc_is_forwarded_to_tunnel(struct __sk_buff *skb, struct pc_flow *flow)
{
	if (!flow || !pc_is_to_tunnel(flow))
		return false;
	if (skb->mark != PC_TUNNEL_MARK)
		return skb->ingress_ifindex;
	skb->mark = 0;
	return false;
}
