/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* slaves.bpf.c - programs at ipvlan slaves in pods' network namespaces, at their parent, and at the
 * node's own slave. They tell the hooks of hooks.bpf.c where a packet came from (device.h), and
 * drop what no hook has seen. The loader loads them once for each device, with its constants.
 */
#include "slave_source.h"
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ipv6.h>
#include <stddef.h>

enum pc_slave_hook { PC_SLAVE_OUT = 0, PC_SLAVE_IN, PC_SLAVE_HOOKS };

/* pc_from_slave and pc_to_slave of the present hooks. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, PC_SLAVE_HOOKS);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_slave_hooks SEC(".maps");

static __always_inline int pc_slave_hook(struct __sk_buff *skb, enum pc_slave_hook hook)
{
	skb->cb[0] = pc_slave_device.number;
	bpf_tail_call(skb, &pc_slave_hooks, hook);
	return pc_tc_action(PC_DROP_NO_POLICY);
}

/* tc egress of a pod's slave. */
SEC("tc")
int pc_slave_out(struct __sk_buff *skb)
{
	if (pc_skips_ingress(skb))
		return pc_tc_action(PC_DROP_UNCHECKED);
	return pc_slave_hook(skb, PC_SLAVE_OUT);
}

/* tc ingress of a pod's slave. */
SEC("tc")
int pc_slave_in(struct __sk_buff *skb)
{
	return pc_slave_hook(skb, PC_SLAVE_IN);
}

/* tc egress of the parent, before the hook of the uplink. That hook may send the packet through the
 * tunnel, and then it comes here again: with the pod's socket, and no ingress device.
 */
SEC("tc")
int pc_parent_out(struct __sk_buff *skb)
{
	struct pc_source source = {};
	__u32 stamp = pc_stamp_of(skb);
	enum drop_reason reason;

	skb->tc_index = PC_STAMP_NONE;
	if (stamp == PC_STAMP_PASSED && !skb->ingress_ifindex)
		return pc_tc_action(PC_PASS);
	pc_read_source(skb, &source);
	if (stamp < PC_STAMP_SLAVE)
		return pc_tc_action(pc_check_node(skb, &source));
	reason = pc_check_slave(skb, &source, stamp);
	skb->tc_index = PC_STAMP_PASSED;
	return pc_tc_action(reason);
}

/* Whether a slave may have sent the packet: ipvlan gives the parent what has equal MACs and goes to
 * none of its slaves. A group address is no source.
 */
static __always_inline bool pc_is_of_slave(struct __sk_buff *skb)
{
	__u8 macs[2 * PC_MAC_LEN] = {}, as_parent = 0, as_target = 0;

	bpf_skb_load_bytes(skb, 0, macs, sizeof(macs));
	for (int i = 0; i < PC_MAC_LEN; i++) {
		as_parent |= macs[PC_MAC_LEN + i] ^ pc_slave_device.mac[i];
		as_target |= macs[PC_MAC_LEN + i] ^ macs[i];
	}
	return !as_parent || !as_target || macs[PC_MAC_LEN] & 1;
}

/* tc ingress of the parent, before the hook of the uplink. A slave's packet to the node's own
 * address also comes by here. It may be for another slave, if it bypassed the hook of its own.
 */
SEC("tc")
int pc_parent_in(struct __sk_buff *skb)
{
	struct pc_source source = {};
	__u32 stamp = pc_stamp_of(skb);

	skb->tc_index = PC_STAMP_WIRE;
	if (!pc_is_of_slave(skb))
		return pc_tc_action(PC_PASS);
	skb->tc_index = PC_STAMP_NONE;
	if (stamp < PC_STAMP_SLAVE)
		return pc_tc_action(PC_DROP_UNCHECKED);
	pc_read_source(skb, &source);
	return pc_tc_action(pc_check_source(&source, stamp));
}

/* Forwarded IPv6 fragments lose the device that they came by, and have no socket (to_pod.h). Any
 * extension header may come before that of a fragment.
 */
static __always_inline bool pc_may_be_forwarded(struct __sk_buff *skb)
{
	__be16 ethertype = 0;
	__u8 next = 0;

	bpf_skb_load_bytes(skb, 2 * PC_MAC_LEN, &ethertype, sizeof(ethertype));
	if (skb->sk || ethertype != bpf_htons(ETH_P_IPV6))
		return false;
	bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &next, sizeof(next));
	return next != IPPROTO_TCP && next != IPPROTO_UDP && next != IPPROTO_ICMPV6 &&
	       next != IPPROTO_SCTP;
}

/* The stamp of a packet that leaves by the node's own slave. */
static __always_inline __u32 pc_stamp_of_node(struct __sk_buff *skb)
{
	__u32 from = skb->ingress_ifindex;

	if (!from)
		return pc_may_be_forwarded(skb) ? PC_STAMP_WIRE : PC_STAMP_NODE;
	if (from == skb->ifindex && pc_stamp_of(skb) >= PC_STAMP_SLAVE)
		return pc_stamp_of(skb); /* from one slave to another, checked as it came in */
	return bpf_map_lookup_elem(&pc_if, &from) ? PC_STAMP_PASSED : PC_STAMP_WIRE;
}

/* tc egress of the node's own slave, by which it reaches its pods. */
SEC("tc")
int pc_node_out(struct __sk_buff *skb)
{
	skb->tc_index = pc_stamp_of_node(skb);
	return pc_tc_action(PC_PASS);
}

/* tc ingress of the node's own slave. The node may forward the packet: the stamp stays. */
SEC("tc")
int pc_node_in(struct __sk_buff *skb)
{
	struct pc_source source = {};
	__u32 stamp = pc_stamp_of(skb);

	if (stamp == PC_STAMP_NONE)
		return pc_tc_action(PC_DROP_UNCHECKED);
	if (stamp < PC_STAMP_SLAVE)
		return pc_tc_action(PC_PASS);
	pc_read_source(skb, &source);
	return pc_tc_action(pc_check_source(&source, stamp));
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
