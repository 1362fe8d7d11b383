/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* prerouting.bpf.c - netfilter's PREROUTING, in the node's network namespace. A packet of a pod
 * that no hook at its device has seen goes no further: the device ifb sends packets on so that the
 * next tc ingress is skipped (tc_skip_classify). Needs Linux 6.4.
 */
#include "drops.h"
#include "stamp.h"
#include <linux/netfilter.h>

/* The devices with a pod's hooks, by ifindex: what comes in there is stamped. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_hooked SEC(".maps");

/* The fields that are read; the loader writes in the offsets. */
struct sk_buff___stamped {
	int skb_iif;
	__u16 tc_index;
} __attribute__((preserve_access_index));

/* The kernel's context of a netfilter program. */
struct bpf_nf_ctx {
	const void *state;
	struct sk_buff___stamped *skb;
};

SEC("netfilter")
int pc_prerouting(struct bpf_nf_ctx *ctx)
{
	__u32 from = ctx->skb->skb_iif;

	if (pc_stamp_read(ctx->skb->tc_index) == PC_STAMP_PASSED ||
	    !bpf_map_lookup_elem(&pc_hooked, &from))
		return NF_ACCEPT;
	pc_tc_action(PC_DROP_UNCHECKED);
	return NF_DROP;
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
