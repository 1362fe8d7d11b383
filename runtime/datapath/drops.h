/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* drops.h - why a packet is dropped, and the one place that counts drops.
 * Gives enum drop_reason, and pc_tc_action(): the return value of a hook for a reason.
 */
#pragma once
#include "addr.h"
#include <linux/pkt_cls.h>

/* Status reads the names from the object's BTF: PC_DROP_SPOOFED_IP is shown as "spoofed ip". */
enum drop_reason {
	PC_PASS = 0,
	PC_DROP_MALFORMED,   /* a header is cut off, or contradicts the one before it */
	PC_DROP_VLAN,        /* pods must not send VLAN tags */
	PC_DROP_ETHERTYPE,   /* neither IP nor ARP */
	PC_DROP_NO_ENDPOINT, /* the endpoints file names no pod with this device */
	PC_DROP_SPOOFED_MAC,
	PC_DROP_SPOOFED_IP,
	PC_DROP_SPOOFED_ARP,
	PC_DROP_SPOOFED_ND,
	PC_DROP_EXT_HEADERS,  /* more IPv6 extension headers than are walked, or source routing */
	PC_DROP_FRAGMENT,     /* its first fragment was not seen, or did not pass */
	PC_DROP_NOT_FOR_POD,  /* sent to a pod's device, but to an address that is not the pod's */
	PC_DROP_NO_POLICY,    /* no policy program is loaded, so nothing is decided */
	PC_DROP_POLICY,       /* a rule, or the lack of one; pc_counts has the rule */
	PC_DROP_CT_FULL,      /* no room for the connection, so its replies would be dropped */
	PC_DROP_SOURCE_ROUTE, /* an IPv4 option that routes it elsewhere than its destination */
	PC_DROP_NO_BACKEND,   /* a Service without an endpoint that takes new connections */
	PC_DROP_BACKEND_GONE, /* the endpoint of this connection to a Service was removed */
	PC_DROP_NAT_TAKEN,    /* another connection has the addresses and ports that it would get */
	PC_DROP_HAIRPIN,      /* a pod sends fragments to itself through a Service */
	PC_DROP_LIMIT,        /* a rule allows it, but its source exceeds the rule's limit */
	PC_DROP_SOURCE_RANGE, /* to a load balancer's address, from outside its source ranges */
	PC_DROP_NO_NODE,      /* of an external client: the endpoint's node is unknown */
	PC_DROP_NOT_A_NODE,   /* out of the tunnel, but not from the node that should send it */
	PC_DROP_NO_ROUTE,     /* forwarded by a node, or the node's own: no device leads there */
	PC_DROP_HOP_LIMIT,    /* forwarded by a node, and the hop limit is exhausted */
	PC_DROP_TOO_BIG,      /* forwarded by a node, too large for the MTU; its sender is told */
	PC_DROP_NO_PORT, /* of a pod that leaves the cluster: none of the SNAT ports is free for it
			  */
	PC_DROP_NOT_MASQUERADED, /* the same: SNAT cannot translate it to the node's address */
	PC_DROP_NODE_ANSWER,     /* fragments from a Service to the node itself */
	PC_DROP_UNRELATED,       /* an ICMP error to a Service, about no packet that it has sent */
	PC_DROP_TUNNEL_PORT,     /* UDP to the port that is reserved for traffic between nodes */
	PC_DROP_SPOOFED_MARK,    /* a pod's packet with a mark that identifies our own packets */
	PC_DROP_UNCHECKED,       /* of a pod, and the hook that checks its sender has not seen it */
	PC_DROP_REASONS
};

/* Per CPU, so that CPUs share no cache line for counting. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PC_DROP_REASONS);
	__type(key, __u32); /* enum drop_reason; the kernel's BTF check wants an integer here */
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_drops SEC(".maps");

/* The return value of a hook; counts a drop. Pass is "next", not "ok": TC_ACT_OK would end the
 * chain and silently disable programs that other software attached behind these. (TCX_NEXT has the
 * same value, and 6.1's headers lack it.)
 */
static __always_inline int pc_tc_action(enum drop_reason reason)
{
	__u32 key = reason;
	__u64 *count;

	if (reason == PC_PASS)
		return TC_ACT_UNSPEC;
	count = bpf_map_lookup_elem(&pc_drops, &key);
	if (count)
		*count += 1;
	return TC_ACT_SHOT;
}
