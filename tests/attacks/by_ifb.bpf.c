/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* by_ifb.bpf.c - the classifier of a pod: matches packets with the mark, and removes it. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MARK 7

SEC("tc")
int k_marked(struct __sk_buff *skb)
{
	if (skb->mark != MARK)
		return 0;
	skb->mark = 0;
	return -1;
}

char k_license[] SEC("license") = "Dual BSD/GPL";
