/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* slaves.bpf.c - programs at ipvlan slaves in pods' network namespaces, at their parent, and at the
 * node's own slave. They tell the hooks of hooks.bpf.c where a packet came from (device.h), and
 * drop what no hook has seen. The loader loads them once for each device, with its constants.
 */
#include "device.h"
#include "drops.h"
#include "endpoints.h"
#include "nat.h"
#include "offload.h"
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ipv6.h>
#include <stddef.h>

/* What the loader knows of the device. */
struct pc_slave_device {
	__u64 netns;          /* the cookie of this node's network namespace */
	__u32 number;         /* of a pod's slave */
	__u8 mac[PC_MAC_LEN]; /* of the parent, and of its slaves */
	__u8 zero[2];
};
_Static_assert(sizeof(struct pc_slave_device) == 24, "packed by the loader");
__attribute__((section(".rodata.device")))
const volatile struct pc_slave_device pc_slave_device = {};

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
	return pc_slave_hook(skb, PC_SLAVE_OUT);
}

/* tc ingress of a pod's slave. */
SEC("tc")
int pc_slave_in(struct __sk_buff *skb)
{
	return pc_slave_hook(skb, PC_SLAVE_IN);
}

#define PC_ARP_SENDER_AT (ETH_HLEN + 14)

/* The source of a frame: an address that can be a pod's; family 0: none. */
struct pc_source {
	struct pc_addr6 addr;
	__u8 family;
	__u8 is_read; /* the frame is IP or ARP */
};

static __always_inline void pc_read_source(struct __sk_buff *skb, struct pc_source *source)
{
	__be16 ethertype = 0;

	bpf_skb_load_bytes(skb, 2 * PC_MAC_LEN, &ethertype, sizeof(ethertype));
	if (ethertype == bpf_htons(ETH_P_IP) || ethertype == bpf_htons(ETH_P_ARP)) {
		source->family = PC_IPV4;
		source->is_read = !bpf_skb_load_bytes(
		    skb, ethertype == bpf_htons(ETH_P_IP) ? PC_IP4_SADDR_AT : PC_ARP_SENDER_AT,
		    &source->addr, 4);
	} else if (ethertype == bpf_htons(ETH_P_IPV6)) {
		source->family = PC_IPV6;
		source->is_read =
		    !bpf_skb_load_bytes(skb, PC_IP6_SADDR_AT, &source->addr, sizeof(source->addr));
	}
	if (pc_addr_is_zero(&source->addr) ||
	    (source->family == PC_IPV6 && pc_addr_is_link_local(&source->addr)))
		source->family = 0;
}

/* The device of the pod that has the address; 0: none has it. */
static __always_inline __u32 pc_device_of(const struct pc_source *source)
{
	struct pc_endpoint ep = {};

	if (source->family)
		pc_endpoint_at(source->family, &source->addr, &ep);
	return ep.ifindex;
}

/* A slave's packet behind its hook: the pod may have rewritten it since. */
static __always_inline enum drop_reason pc_check_source(const struct pc_source *source, __u32 stamp)
{
	if (!source->is_read)
		return PC_DROP_ETHERTYPE;
	if (source->family && pc_device_of(source) != (PC_SLAVE | stamp))
		return PC_DROP_SPOOFED_IP;
	return PC_PASS;
}

/* The fields of the kernel's structs that are read; the loader writes in their offsets. */
struct net {
	__u64 net_cookie;
} __attribute__((preserve_access_index));
struct sock_common {
	struct {
		struct net *net;
	} skc_net;
} __attribute__((preserve_access_index));
struct sock {
	struct sock_common __sk_common;
} __attribute__((preserve_access_index));
struct sk_buff {
	struct sock *sk;
} __attribute__((preserve_access_index));

/* Of the packet's socket; 0: it has none. A kernel without tcx attaches nothing here. */
static __always_inline __u64 pc_netns_of(struct __sk_buff *skb)
{
	struct sk_buff *kernel;
	struct sock *sk;

	if (!bpf_core_type_exists(struct tcx_link___pc))
		return 0;
	kernel = bpf_cast_to_kern_ctx(skb);
	sk = kernel->sk;
	return sk ? sk->__sk_common.skc_net.net->net_cookie : 0;
}

/* Without a slave's stamp: of this node's network namespace, and not with a slave's address. A
 * packet that bypassed its slave's hook still has its socket.
 */
static __always_inline enum drop_reason pc_check_node(struct __sk_buff *skb,
						      const struct pc_source *source)
{
	if (!skb->ingress_ifindex && skb->sk && pc_netns_of(skb) != pc_slave_device.netns)
		return PC_DROP_UNCHECKED;
	return pc_device_of(source) & PC_SLAVE ? PC_DROP_UNCHECKED : PC_PASS;
}

/* tc egress of the parent, before the hook of the uplink. The stamp ends here: another node may run
 * on the same kernel.
 */
SEC("tc")
int pc_parent_out(struct __sk_buff *skb)
{
	struct pc_source source = {};
	__u32 stamp = skb->tc_index;

	skb->tc_index = PC_STAMP_NONE;
	pc_read_source(skb, &source);
	return pc_tc_action(stamp >= PC_STAMP_SLAVE ? pc_check_source(&source, stamp)
						    : pc_check_node(skb, &source));
}

static __always_inline bool pc_is_of_parent(struct __sk_buff *skb)
{
	__u8 smac[PC_MAC_LEN] = {}, differs = 0;

	bpf_skb_load_bytes(skb, PC_MAC_LEN, smac, sizeof(smac));
	for (int i = 0; i < PC_MAC_LEN; i++)
		differs |= smac[i] ^ pc_slave_device.mac[i];
	return !differs;
}

/* tc ingress of the parent. A slave's packet to the node's own address also comes by here, with the
 * parent's MAC as its source. It may be for another slave, if it bypassed the hook of its own.
 */
SEC("tc")
int pc_parent_in(struct __sk_buff *skb)
{
	struct pc_source source = {};
	__u32 stamp = skb->tc_index;

	skb->tc_index = PC_STAMP_WIRE;
	if (!pc_is_of_parent(skb))
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
	if (from == skb->ifindex && skb->tc_index >= PC_STAMP_SLAVE)
		return skb->tc_index; /* from one slave to another, checked as it came in */
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
	__u32 stamp = skb->tc_index;

	if (stamp == PC_STAMP_NONE)
		return pc_tc_action(PC_DROP_UNCHECKED);
	if (stamp < PC_STAMP_SLAVE)
		return pc_tc_action(PC_PASS);
	pc_read_source(skb, &source);
	return pc_tc_action(pc_check_source(&source, stamp));
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
