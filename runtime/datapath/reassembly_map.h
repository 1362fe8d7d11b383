/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* reassembly_map.h - the device of reassembly, the return of its fragments, and their limit.
 * Gives pc_reasm_now(), pc_reasm_key_of(), pc_reasm_is_over(), pc_reasm_count().
 */
#pragma once
#include "flow.h"

#define PC_REASM_ENTRIES 16384
#define PC_REASM_PACES   4096
#define PC_REASM_PACE    4000  /* fragments per second of one device */
#define PC_REASM_IDLE    10ULL /* seconds; the kernel gives a datagram two (reassembly.py) */

/* Where fragments go, as the loader says. 0: nowhere, and they are dropped. */
struct pc_reasm_device {
	__u32 device;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_reasm_device);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_reasm_device SEC(".maps");

static __always_inline const struct pc_reasm_device *pc_reasm_now(void)
{
	const struct pc_reasm_device *to;
	__u32 zero = 0;

	to = bpf_map_lookup_elem(&pc_reasm_device, &zero);
	return to && to->device ? to : 0;
}

/* Without the datagram's id: the kernel fragments IPv6 under a number of its own. */
struct pc_reasm_key {
	struct pc_addr6 saddr, daddr;
	__u32 family;
};

/* Where such a packet comes back to, and its frame before reassembly. */
struct pc_reasm_origin {
	__u64 expires;
	__u32 device;
	__u32 is_egress; /* it was about to leave by the device */
	__u8 dmac[PC_MAC_LEN], smac[PC_MAC_LEN];
	__u32 zero;
};
_Static_assert(sizeof(struct pc_reasm_origin) == 32, "without hidden padding");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PC_REASM_ENTRIES);
	__type(key, struct pc_reasm_key);
	__type(value, struct pc_reasm_origin);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_reasm_origin SEC(".maps");

/* How much a device has sent to reassembly in the second that began at `since`. */
struct pc_reasm_pace {
	__u64 since;
	__u64 n;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PC_REASM_PACES);
	__type(key, __u32); /* the device */
	__type(value, struct pc_reasm_pace);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_reasm_pace SEC(".maps");

enum pc_reasm_count { PC_REASM_SENT = 0, PC_REASM_BACK, PC_REASM_OVER, PC_REASM_COUNTS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PC_REASM_COUNTS);
	__type(key, __u32); /* enum pc_reasm_count */
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_reasm_counts SEC(".maps");

static __always_inline void pc_reasm_count(__u32 what)
{
	__u64 *count = bpf_map_lookup_elem(&pc_reasm_counts, &what);

	if (count)
		*count += 1;
}

/* Two CPUs that race at the end of a second may count too few fragments. */
static __always_inline bool pc_reasm_is_over(__u32 device, const struct pc_flow *flow)
{
	struct pc_reasm_pace first = {.since = flow->now, .n = 1};
	struct pc_reasm_pace *pace = bpf_map_lookup_elem(&pc_reasm_pace, &device);

	if (!pace)
		return bpf_map_update_elem(&pc_reasm_pace, &device, &first, BPF_ANY) != 0;
	if (flow->now - pace->since >= flow->second) {
		pace->since = flow->now;
		pace->n = 0;
	}
	return __sync_fetch_and_add(&pace->n, 1) >= PC_REASM_PACE;
}

/* The same check for a fragment that was not sent to reassembly yet. */
static __always_inline bool pc_reasm_is_full(__u32 device, const struct pc_flow *flow)
{
	const struct pc_reasm_pace *pace = bpf_map_lookup_elem(&pc_reasm_pace, &device);

	return pace && flow->now - pace->since < flow->second && pace->n >= PC_REASM_PACE;
}

static __always_inline struct pc_reasm_key pc_reasm_key_of(const struct pc_flow *flow)
{
	return (struct pc_reasm_key){
	    .saddr = flow->tuple.saddr, .daddr = flow->tuple.daddr, .family = flow->tuple.family};
}
