/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* endpoints.h - which pods there are, by address and by device.
 * Gives pc_endpoint_at(). Written by the loader; only hooks read it.
 */
#pragma once
#include "flow.h"

#define PC_ENDPOINT_ENTRIES 65536
#define PC_DEVICE_ENTRIES   4096

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_ENDPOINT_ENTRIES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __be32);
	__type(value, struct pc_endpoint);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_ep4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_ENDPOINT_ENTRIES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pc_addr6);
	__type(value, struct pc_endpoint);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_ep6 SEC(".maps");

/* ifindex of the host's side -> the pod behind it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_DEVICE_ENTRIES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct pc_endpoint);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_if SEC(".maps");

/* The pod with that address, or NULL. */
static __always_inline struct pc_endpoint *pc_endpoint_at(__u8 family, const struct pc_addr6 *addr)
{
	if (family == PC_IPV4)
		return bpf_map_lookup_elem(&pc_ep4, &addr->word[0]);
	return bpf_map_lookup_elem(&pc_ep6, addr);
}

/* Fills the flow's two ends; an end that is no pod stays zero. */
static __always_inline void pc_endpoints_of(struct pc_flow *flow)
{
	struct pc_endpoint *ep;

	ep = pc_endpoint_at(flow->t.family, &flow->t.saddr);
	if (ep)
		flow->src = *ep;
	ep = pc_endpoint_at(flow->t.family, &flow->t.daddr);
	if (ep)
		flow->dst = *ep;
}
