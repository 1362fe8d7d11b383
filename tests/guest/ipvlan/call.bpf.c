/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One call, in one kind of program: does the kernel load it? -DTYPE= and -DCALL= say which. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} jumps SEC(".maps");

SEC(TYPE) int calls(struct __sk_buff *skb)
{
	struct bpf_fib_lookup about = {};
	__u32 word = 0;

	(void)skb;
	(void)about;
	(void)word;
	CALL;
	return 1;
}

char facts_license[] SEC("license") = "Dual BSD/GPL";
