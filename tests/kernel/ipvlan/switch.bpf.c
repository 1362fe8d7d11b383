/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* switch.bpf.c - what ipvlan does between the slaves of a parent, for kernels without it: in mode
 * L2 with flag bridge. A slave is a veth here, and this runs where its packets reach the node, and
 * where those of the network come in.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct address {
	__u32 word[4];
};

/* An address -> the node's side of the slave that has it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct address);
	__type(value, __u32);
} k_slaves SEC(".maps");

/* 0 -> the parent. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} k_parent SEC(".maps");

/* The slave that a packet goes to; 0: none. */
static __always_inline __u32 slave_of(struct __sk_buff *skb)
{
	struct address to = {};
	__be16 ethertype = 0;
	__u32 *found;

	bpf_skb_load_bytes(skb, 12, &ethertype, sizeof(ethertype));
	if (ethertype == bpf_htons(ETH_P_IP))
		bpf_skb_load_bytes(skb, ETH_HLEN + 16, &to, 4);
	else if (ethertype == bpf_htons(ETH_P_IPV6))
		bpf_skb_load_bytes(skb, ETH_HLEN + 24, &to, sizeof(to));
	found = bpf_map_lookup_elem(&k_slaves, &to);
	return found ? *found : 0;
}

/* From a slave. */
SEC("tc")
int k_from_slave(struct __sk_buff *skb)
{
	__u8 dmac[6] = {}, smac[6] = {1}, differs = 0;
	__u32 zero = 0, *parent = bpf_map_lookup_elem(&k_parent, &zero);
	__u32 slave = slave_of(skb);

	bpf_skb_load_bytes(skb, 0, dmac, sizeof(dmac));
	bpf_skb_load_bytes(skb, 6, smac, sizeof(smac));
	for (int i = 0; i < 6; i++)
		differs |= dmac[i] ^ smac[i];
	if (!parent)
		return TC_ACT_SHOT;
	if (differs)
		return bpf_redirect(*parent, 0);
	if (slave && !(dmac[0] & 1))
		return bpf_redirect(slave, 0);
	return bpf_redirect(*parent, BPF_F_INGRESS);
}

/* From the network. */
SEC("tc")
int k_from_wire(struct __sk_buff *skb)
{
	__u32 slave = slave_of(skb);

	return slave ? bpf_redirect(slave, 0) : TC_ACT_UNSPEC;
}

char k_license[] SEC("license") = "Dual BSD/GPL";
