/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* tunnel_port.h - the UDP port of the tunnel, to which nodes alone send.
 * Gives pc_is_to_tunnel() for what pods send, pc_is_forwarded_to_tunnel() for what leaves.
 *
 * A node believes what comes out of the tunnel by the outer source address, and whoever translates
 * a pod's packet on the way out gives it a node's address. So the port is the cluster's, whatever
 * the destination, and in answers too: a flow may have been opened from the port.
 */
#pragma once
#include "flow.h"
#include <linux/in.h>

#define PC_TUNNEL_PORT 8477 /* of runtime/devices/tunnel.py */

/* On what our own tunnel sends in IPv6: in IPv4 the kernel clears ingress_ifindex there, in IPv6 it
 * need not (udp_tunnel6_xmit_skb()). No bits of kube-proxy's and Cilium's marks, nor a handed one.
 */
#define PC_TUNNEL_MARK 0x70642024

static __always_inline bool pc_is_tunnel_port(__u8 proto, __be16 port)
{
	return proto == IPPROTO_UDP && port == bpf_htons(PC_TUNNEL_PORT);
}

/* Of a packet in its own direction. A later fragment has no port, and follows its first one. */
static __always_inline bool pc_is_to_tunnel(const struct pc_flow *flow)
{
	return pc_is_tunnel_port(flow->t.proto, flow->t.dport);
}

/* At an uplink: whether the node forwards the packet, or has generated it itself. A
 * function of its own, as the hook's stack is full.
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
