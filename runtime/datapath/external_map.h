/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* external_map.h - the cluster's nodes, and how they forward packets of external clients.
 * Gives pc_node_at(), pc_node_of(), pc_is_same_node(), pc_external_now(). Written by the loader
 * (runtime/load/cluster_nodes.py); only hooks read.
 */
#pragma once
#include "flow.h"

/* Node addresses have numbers. 0: any address of this node; or, where optional, no node. */
#define PC_NODES_MOST 16384 /* as many as PC_CT_NODE_AT leaves bits for */
#define PC_UPLINKS    8

/* The mark of a packet that another node forwarded, from the tunnel device to the uplink's hook;
 * the node's number is below. No packet from a wire has a mark. PC_ANSWER_MARK is none of these.
 */
#define PC_FORWARDED_MARK 0x70630000
#define PC_FORWARDED_NODE (PC_NODES_MOST - 1)
/* The mark of our own error to a pod, which the uplink's hook lets pass. */
#define PC_ERROR_MARK 0x70635222

/* The mark of a packet that a hook has redirected to an uplink, whose own hook lets it pass. */
#define PC_ROUTED_MARK 0x70635223

/* The mark of a packet without its outer headers, from the uplink's hook to the VXLAN device's
 * hook. Below are the direction and the sender's number. Only a packet without a tunnel key is
 * believed: each packet that the kernel decapsulates has one.
 */
#define PC_UNWRAPPED_MARK  0x70638000
#define PC_UNWRAPPED_REPLY 0x4000

/* The VNIs of the VXLAN between nodes (tunnel.h), and the hop limit of its packets. */
#define PC_VNI_REQUEST 0x706301
#define PC_VNI_REPLY   0x706302
#define PC_OUTER_HOPS  64

struct pc_node_key {
	struct pc_addr6 addr;
	__u32 family;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_NODES_MOST);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pc_node_key);
	__type(value, __u32); /* its number */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_node_nums SEC(".maps");

/* An address of another node, and its tunnel endpoint (VTEP): the outer destination address of
 * packets that are forwarded to the node.
 */
struct pc_vtep {
	struct pc_addr6 addr;
	struct pc_addr6 vtep;
	__u32 vtep_family; /* 0: no node has the number */
	__u32 vtep_number; /* of the VTEP's address: the same for all addresses of a node */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_NODES_MOST);
	__type(key, __u32);
	__type(value, struct pc_vtep);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_vteps SEC(".maps");

enum pc_return_path { PC_BACK_TUNNEL = 0, PC_BACK_DSR };

/* Which packets go to a node on the same link without a tunnel (link_forward.h). Only those that
 * leave by the device that they came in by come back if that node does not take them.
 */
enum pc_by_link { PC_LINK_NEVER = 0, PC_LINK_SAME_DEVICE, PC_LINK_ALWAYS };

/* The configuration of the last load. */
struct pc_external {
	__u32 tunnel;                       /* its device; 0: none */
	__u32 return_path;                  /* default for Services that set none (return_path.h) */
	__u32 uplink[PC_UPLINKS];           /* their devices; 0: end of the list */
	__u32 fast_path_uplink[PC_UPLINKS]; /* forward_out.h; entries store the index, so it stays
					       the same in each load; 0: none */
	__be32 uplink_own4[PC_UPLINKS]; /* the node's address there, by which hooks encapsulate; 0:
					   they do not */
	struct pc_addr6 own4, own6;     /* an address of this node, where its node ports are */
	__u32 by_link;                  /* enum pc_by_link */
	__u32 marks;    /* marks that routing rules read: such packets need the stack path */
	__u32 host_nat; /* netfilter may translate packets that leave: external_forward.h */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_external);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_external SEC(".maps");

/* The number of a node's address; NULL: no node has it. */
static __always_inline const __u32 *pc_node_at(__u8 family, const struct pc_addr6 *addr)
{
	struct pc_node_key key = {.addr = *addr, .family = family};

	return bpf_map_lookup_elem(&pc_node_nums, &key);
}

static __always_inline bool pc_is_own_node(__u8 family, const struct pc_addr6 *addr)
{
	const __u32 *number = pc_node_at(family, addr);

	return number && !*number;
}

/* The address with the number; NULL: none. */
static __always_inline const struct pc_vtep *pc_node_of(__u32 number)
{
	const struct pc_vtep *node = bpf_map_lookup_elem(&pc_vteps, &number);

	return node && node->vtep_family ? node : 0;
}

/* Whether two numbers are those of one node. */
static __always_inline bool pc_is_same_node(__u32 number, __u32 other)
{
	const struct pc_vtep *one = pc_node_of(number), *two = pc_node_of(other);

	return one && two && one->vtep_number == two->vtep_number;
}

static __always_inline const struct pc_external *pc_external_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pc_external, &zero);
}

/* The address that an external client uses for a Service. For a node port: the address of the node
 * that the client came to. `service` is the backend's address, and `node` the connection's.
 */
static __always_inline const struct pc_addr6 *pc_frontend_addr(const struct pc_addr6 *service,
							       __u8 family, __u32 node)
{
	const struct pc_vtep *ingress = node ? pc_node_of(node) : 0;

	return ingress && pc_is_own_node(family, service) ? &ingress->addr : service;
}
