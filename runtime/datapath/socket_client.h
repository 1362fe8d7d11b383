/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* socket_client.h - which sockets the hooks of a cgroup serve: those of the node, and of its pods.
 * Gives pc_socket_client_of(). The network namespace of a socket identifies its owner, by a cookie
 * that the kernel never reuses; an address would prove nothing. The loader writes both maps
 * (runtime/maps/sockets.py).
 */
#pragma once
#include "endpoints.h"
#include "external_map.h"
#include "flow.h"

/* The node's data. */
struct pc_socket_host {
	__u64 cookie; /* of the node's network namespace; 0: none, the hooks do nothing */
	struct pc_addr6 addr4, addr6; /* the node's; zero: unknown */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_socket_host);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_socket_host SEC(".maps");

/* A pod of this node whose sockets are served. */
struct pc_socket_pod {
	struct pc_addr6 addr4, addr6; /* zero: it has none of the family */
};

/* The cookie of the pod's network namespace -> the pod. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_LOCALS);
	__type(key, __u64);
	__type(value, struct pc_socket_pod);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_socket_pods SEC(".maps");

struct pc_socket_client {
	struct pc_addr6 addr;      /* the client's */
	struct pc_addr6 node_addr; /* the node's, which has its node ports; zero: unknown */
	bool is_node;
};

/* Whether the hooks serve the socket for this family; fills *client then. */
static __always_inline bool pc_socket_client_of(struct bpf_sock_addr *ctx, __u8 family,
						struct pc_socket_client *client)
{
	__u32 zero = 0;
	const struct pc_socket_host *host = bpf_map_lookup_elem(&pc_socket_host, &zero);
	const struct pc_socket_pod *pod;
	__u64 cookie;

	if (!host || !host->cookie)
		return false;
	client->node_addr = family == PC_IPV4 ? host->addr4 : host->addr6;
	cookie = bpf_get_netns_cookie(ctx);
	client->is_node = cookie == host->cookie;
	if (client->is_node) {
		client->addr = client->node_addr;
		return true;
	}
	pod = bpf_map_lookup_elem(&pc_socket_pods, &cookie);
	if (!pod)
		return false;
	client->addr = family == PC_IPV4 ? pod->addr4 : pod->addr6;
	return !pc_addr_is_zero(&client->addr);
}
