/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* netfilter.h - whether netfilter sees packets that the node forwards: a firewall, NAT or
 * connection tracking. Hooks of other families (bridge, arp) see no packets that the IP stack
 * forwards. Gives pc_has_netfilter().
 */
#pragma once
#include "first_conf.h"
#include "ipsec.h"
#include <linux/netfilter.h>

/* The kernel's fields that are read, at this kernel's offsets (CO-RE). A list without hooks is
 * NULL.
 */
struct nf_hook_entries___pc {
	__u16 num_hook_entries;
} __attribute__((preserve_access_index));
struct netns_nf___pc {
	struct nf_hook_entries___pc *hooks_ipv4[NF_INET_NUMHOOKS];
	struct nf_hook_entries___pc *hooks_ipv6[NF_INET_NUMHOOKS];
} __attribute__((preserve_access_index));
struct net___pc_nf {
	struct netns_nf___pc nf;
} __attribute__((preserve_access_index));
struct net_device___pc_nf {
	struct nf_hook_entries___pc *nf_hooks_ingress;
} __attribute__((preserve_access_index));

/* Whether there is a list. Compilers join tests of two pointers by an OR, which the verifier
 * refuses.
 */
static __always_inline bool pc_is_list(const struct nf_hook_entries___pc *list)
{
	bool is_there = list;

	barrier_var(is_there);
	return is_there;
}

/* Hooks in PREROUTING that are not ours. */
static __always_inline bool pc_is_prerouted(__u32 n_hooks)
{
	const struct pc_first_conf *conf = pc_first_now();

	return !conf || n_hooks > conf->own_hooks;
}

/* By plain loads, as in offload.h. */
static __always_inline bool pc_is_filtered(const struct sk_buff___pc_dev *skb, __u8 family)
{
	const struct net_device___pc_nf *dev = (const void *)skb->dev;
	const struct net___pc_nf *net = (const void *)skb->dev->nd_net.net;
	const struct nf_hook_entries___pc *prerouting;

	if (bpf_core_field_exists(struct net_device___pc_nf, nf_hooks_ingress) &&
	    pc_is_list(dev->nf_hooks_ingress))
		return true;
	if (family == PC_IPV4) {
		prerouting = net->nf.hooks_ipv4[NF_INET_PRE_ROUTING];
		if (pc_is_list(net->nf.hooks_ipv4[NF_INET_FORWARD]) ||
		    pc_is_list(net->nf.hooks_ipv4[NF_INET_POST_ROUTING]))
			return true;
	} else {
		prerouting = net->nf.hooks_ipv6[NF_INET_PRE_ROUTING];
		if (pc_is_list(net->nf.hooks_ipv6[NF_INET_FORWARD]) ||
		    pc_is_list(net->nf.hooks_ipv6[NF_INET_POST_ROUTING]))
			return true;
	}
	return pc_is_prerouted(prerouting ? prerouting->num_hook_entries : 0);
}

/* The same where the kernel allows no plain loads. */
static __always_inline bool pc_is_filtered_copied(const struct sk_buff___pc_dev *skb, __u8 family)
{
	const struct net_device___pc_nf *dev = (const void *)BPF_CORE_READ(skb, dev);
	const struct net___pc_nf *net = (const void *)BPF_CORE_READ(skb, dev, nd_net.net);
	struct nf_hook_entries___pc *lists[NF_INET_NUMHOOKS] = {};

	if (bpf_core_field_exists(struct net_device___pc_nf, nf_hooks_ingress) &&
	    BPF_CORE_READ(dev, nf_hooks_ingress))
		return true;
	if (family == PC_IPV4)
		bpf_core_read(lists, sizeof(lists), &net->nf.hooks_ipv4);
	else
		bpf_core_read(lists, sizeof(lists), &net->nf.hooks_ipv6);
	if (lists[NF_INET_FORWARD] || lists[NF_INET_POST_ROUTING])
		return true;
	return pc_is_prerouted(BPF_CORE_READ(lists[NF_INET_PRE_ROUTING], num_hook_entries));
}

/* For a packet at its sender's hook, or at a pod's: ingress hooks are those of the pod's device. A
 * kernel without netfilter has none of the fields.
 */
static __always_inline bool pc_has_netfilter(const struct __sk_buff *ctx, __u8 family)
{
	if (!bpf_core_field_exists(struct net___pc_nf, nf))
		return false;
	if (!bpf_core_type_exists(struct tcx_link___pc))
		return pc_is_filtered_copied((const void *)ctx, family);
	return pc_is_filtered(bpf_cast_to_kern_ctx((void *)ctx), family);
}
