/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* first_conf.h - what a load found out for first packets on the fast path. */
#pragma once
#include "flow.h"

struct pc_first_conf {
	__u32 own_hooks;   /* hooks of prerouting.bpf.c in netfilter, for each IP family */
	__u32 other_nodes; /* not 0: at uplinks no other program sees what comes in */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_first_conf);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_first_conf SEC(".maps");

/* NULL only for the verifier. */
static __always_inline const struct pc_first_conf *pc_first_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pc_first_conf, &zero);
}
