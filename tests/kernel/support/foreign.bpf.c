/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A program of somebody else's, beside ours on a device: counts and passes on. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} hits SEC(".maps");

SEC("tc")
int foreign(struct __sk_buff *skb __attribute__((unused)))
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&hits, &zero);

	if (count)
		__sync_fetch_and_add(count, 1);
	return TC_ACT_UNSPEC;
}

char foreign_license[] SEC("license") = "Dual BSD/GPL";
