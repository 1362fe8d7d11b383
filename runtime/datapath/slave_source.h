/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* slave_source.h - whether a packet of an ipvlan slave is from its sender, where that pod may have
 * rewritten it or bypassed its hook. Gives pc_slave_device, pc_skips_ingress(), pc_read_source(),
 * pc_check_source(), pc_check_slave() and pc_check_node() to slaves.bpf.c.
 */
#pragma once
#include "device.h"
#include "endpoints.h"
#include "marks.h"
#include "nat.h"
#include "offload.h"
#include "parse.h"
#include "tunnel_port.h"
#include <linux/if_ether.h>

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
	__u8 tc_skip_classify : 1;
} __attribute__((preserve_access_index));

/* Whether the next tc ingress is skipped: so the device ifb sends packets on. A kernel without tcx
 * attaches nothing here.
 */
static __always_inline bool pc_skips_ingress(struct __sk_buff *skb)
{
	struct sk_buff *kernel;

	if (!bpf_core_type_exists(struct tcx_link___pc))
		return true;
	kernel = bpf_cast_to_kern_ctx(skb);
	return BPF_CORE_READ_BITFIELD(kernel, tc_skip_classify);
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

/* A packet without a slave's stamp, at the parent. A packet that bypassed its slave's hook still
 * has its socket, of another network namespace. A local pod's address comes by that pod's device.
 */
static __always_inline enum drop_reason pc_check_node(struct __sk_buff *skb,
						      const struct pc_source *source)
{
	__u32 from = skb->ingress_ifindex, device;

	if (!from && skb->sk && pc_netns_of(skb) != pc_slave_device.netns)
		return PC_DROP_UNCHECKED;
	device = pc_device_of(source);
	if (device & PC_SLAVE || (from && device && device != from))
		return PC_DROP_UNCHECKED;
	return PC_PASS;
}

/* A slave's packet at the parent. Its pod may have rewritten it since the slave's hook. The hook of
 * the uplink trusts marks, and gives the packet the node's address.
 */
static __always_inline enum drop_reason pc_check_slave(struct __sk_buff *skb,
						       const struct pc_source *source, __u32 stamp)
{
	struct pc_flow *flow = pc_flow_scratch();
	enum drop_reason reason = pc_check_source(source, stamp);

	if (reason)
		return reason;
	if ((skb->mark & PC_MARKS_MASK) == PC_MARKS || skb->mark == PC_TUNNEL_MARK)
		return PC_DROP_SPOOFED_MARK;
	if (!flow)
		return PC_DROP_NO_POLICY;
	reason = pc_parse(skb, flow);
	if (!reason && pc_is_to_tunnel(flow))
		return PC_DROP_TUNNEL_PORT;
	return reason;
}
