/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* socket_peers.h - what is remembered of a socket: the address that its process used for a Service,
 * and the endpoint in place of it.
 * Gives pc_socket_connected(), pc_socket_keep(), pc_socket_kept(), pc_socket_asked().
 */
#pragma once
#include "service_map.h"
#include <linux/in.h>

#define PC_SOCKET_PEERS 32768

/* Of a connected socket. */
struct pc_socket_service {
	__u64 netns, socket; /* cookies */
	struct pc_addr6 asked, addr;
	__be16 asked_port, port;
	__u8 proto;
	__u8 zero[3];
	__u32 backend; /* the endpoint's */
	__u32 zero_end;
};
_Static_assert(sizeof(struct pc_socket_service) == 64, "no hidden padding");

/* The kernel frees it with the socket, so that it is there for as long as a connection is. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pc_socket_service);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_socket_conns SEC(".maps");

/* An unconnected socket, and its remote address: the endpoint's, or with `is_asked` the Service's.
 */
struct pc_socket_key {
	__u64 cookie;
	struct pc_addr6 addr;
	__be16 port;
	__u8 proto, is_asked;
	__u32 zero;
};
_Static_assert(sizeof(struct pc_socket_key) == 32, "a map key has no hidden padding");

struct pc_socket_peer {
	struct pc_addr6 addr; /* in the endpoint's entry: the address that the process used */
	__be16 port;
	__u16 zero;
	__u32 backend; /* in the Service's entry: the backend of its endpoint */
};

/* Lets a process see the address that it used, and an unconnected socket keep its endpoint. The
 * least recently used entry is evicted: then a socket sees the endpoint's address.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PC_SOCKET_PEERS);
	__type(key, struct pc_socket_key);
	__type(value, struct pc_socket_peer);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_socket_peers SEC(".maps");

/* Records a connection to an endpoint. False if the socket has no memory left for it. */
static __always_inline bool pc_socket_connected(struct bpf_sock_addr *ctx,
						const struct pc_socket_key *asked,
						const struct pc_backend *backend)
{
	struct pc_socket_service *service =
	    bpf_sk_storage_get(&pc_socket_conns, ctx->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!service)
		return false;
	service->netns = bpf_get_netns_cookie(ctx);
	service->socket = asked->cookie;
	service->asked = asked->addr;
	service->asked_port = asked->port;
	service->addr = backend->addr;
	service->port = backend->port;
	service->proto = asked->proto;
	service->backend = backend->id;
	return true;
}

/* Records the endpoint of an unconnected socket's datagrams to a Service. */
static __always_inline bool pc_socket_keep(const struct pc_socket_key *asked,
					   const struct pc_backend *backend)
{
	struct pc_socket_key there = {
	    .cookie = asked->cookie,
	    .addr = backend->addr,
	    .port = backend->port,
	    .proto = asked->proto,
	};
	struct pc_socket_peer peer = {
	    .addr = asked->addr, .port = asked->port, .backend = backend->id};

	return !bpf_map_update_elem(&pc_socket_peers, &there, &peer, BPF_ANY) &&
	       !bpf_map_update_elem(&pc_socket_peers, asked, &peer, BPF_ANY);
}

/* The previous endpoint of an unconnected socket, while it takes new connections. */
static __always_inline const struct pc_backend *pc_socket_kept(const struct pc_socket_key *asked)
{
	const struct pc_socket_peer *had = bpf_map_lookup_elem(&pc_socket_peers, asked);
	const struct pc_backend *backend = had ? pc_backend_of(had->backend) : 0;

	return backend && !(backend->state & PC_BACKEND_NO_NEW) ? backend : 0;
}

/* Whether the remote address is an endpoint that the socket has instead of a Service: then returns
 * the Service's.
 */
static __always_inline bool pc_socket_asked(struct bpf_sock_addr *ctx, struct pc_addr6 *addr,
					    __be16 *port)
{
	const struct pc_socket_service *service =
	    bpf_sk_storage_get(&pc_socket_conns, ctx->sk, 0, 0);
	struct pc_socket_key there = {.addr = *addr, .port = *port, .proto = ctx->protocol};
	const struct pc_socket_peer *peer;

	if (service && service->port == *port && pc_addr_eq(&service->addr, addr)) {
		*addr = service->asked;
		*port = service->asked_port;
		return true;
	}
	if (there.proto != IPPROTO_UDP)
		return false;
	there.cookie = bpf_get_socket_cookie(ctx);
	peer = bpf_map_lookup_elem(&pc_socket_peers, &there);
	if (!peer)
		return false;
	*addr = peer->addr;
	*port = peer->port;
	return true;
}
