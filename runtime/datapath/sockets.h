/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sockets.h - connects the node's own sockets to an endpoint of a Service directly.
 * Gives pc_socket_to(), pc_socket_from(), for hooks of a cgroup. They run in processes, and packets
 * may interrupt them: they must not use the other hooks' per-CPU scratch.
 */
#pragma once
#include "external_map.h"
#include "service_affinity.h"
#include "source_range.h"
#include <linux/in.h>

#define PC_SOCKET_PEERS 32768
#define PC_MAPPED       bpf_htonl(0xffff) /* ::ffff:a.b.c.d */
#define PC_REFUSED      (-111)            /* -ECONNREFUSED */

/* The node's data, from the loader. These hooks ignore sockets of other network namespaces. */
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

/* A socket, and its remote address: the endpoint's, or with `is_asked` the Service's. */
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

enum pc_socket_answer { PC_SOCKET_AS_IS, PC_SOCKET_CHANGED, PC_SOCKET_REFUSED };

/* The node's data, if the socket is in the node's network namespace. */
static __always_inline const struct pc_socket_host *pc_socket_host_of(struct bpf_sock_addr *ctx)
{
	__u32 zero = 0;
	const struct pc_socket_host *host = bpf_map_lookup_elem(&pc_socket_host, &zero);

	return host && host->cookie && bpf_get_netns_cookie(ctx) == host->cookie ? host : 0;
}

static __always_inline bool pc_is_loopback(const struct pc_tuple *t)
{
	if (t->family == PC_IPV4)
		return (t->daddr.word[0] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
	return pc_addr6_high(&t->daddr) == 0 && pc_addr6_low(&t->daddr) == 1;
}

/* Whether it is another node's address, where node ports serve all nodes (node_port.h). */
static __always_inline bool pc_is_other_node(const struct pc_tuple *t)
{
	const __u32 *number = pc_node_at(t->family, &t->daddr);

	return number && *number;
}

/* The Service at its own address, or as a node port at the loopback address or at another node's
 * address.
 */
static __always_inline const struct pc_frontend *pc_socket_frontend(struct pc_tuple *t, __u32 state)
{
	bool is_loopback = pc_is_loopback(t);
	const struct pc_frontend *found = is_loopback ? 0 : pc_frontend_of(t, state);

	if (found)
		return found;
	if (pc_addr_is_zero(&t->saddr) || (!is_loopback && !pc_is_other_node(t)))
		return 0;
	t->daddr = t->saddr;
	found = pc_frontend_of(t, state);
	if (!found || !(found->flags & PC_FRONTEND_NODE_PORT))
		return 0;
	return is_loopback || !(found->flags & PC_FRONTEND_LOCAL) ? found : 0;
}

/* The previous endpoint of an unconnected socket, while it takes new connections. */
static __always_inline const struct pc_backend *pc_socket_had(const struct pc_socket_key *asked)
{
	const struct pc_socket_peer *had = bpf_map_lookup_elem(&pc_socket_peers, asked);
	const struct pc_backend *backend = had ? pc_backend_of(had->backend) : 0;

	return backend && !(backend->state & PC_BACKEND_NO_NEW) ? backend : 0;
}

static __always_inline const struct pc_backend *
pc_socket_backend_of(struct pc_flow *flow, const struct pc_frontend *frontend, __u32 state)
{
	struct pc_pool pool = pc_pool_of(frontend, PC_CLIENT_POD);
	const struct pc_backend *backend = 0;

	if (!pool.count)
		return 0;
	if (frontend->ranges && !pc_is_in_range(&flow->tuple.saddr, frontend->ranges, state))
		return 0;
	if (frontend->affinity)
		backend = pc_affine(flow, frontend, &pool, state);
	if (!backend)
		backend = pc_choice(&pool, bpf_get_prandom_u32() % pool.count, state);
	if (!backend || !pc_backend_is_at(backend, &flow->tuple))
		return 0;
	if (frontend->affinity)
		pc_affine_note(flow, frontend, backend);
	return backend;
}

/* For the process's view: the endpoint's entry leads back to the address that the process used. */
static __always_inline bool pc_socket_remember(const struct pc_socket_key *asked,
					       const struct pc_backend *backend, bool keeps)
{
	struct pc_socket_key there = {
	    .cookie = asked->cookie,
	    .addr = backend->addr,
	    .port = backend->port,
	    .proto = asked->proto,
	};
	struct pc_socket_peer peer = {
	    .addr = asked->addr, .port = asked->port, .backend = backend->id};

	if (bpf_map_update_elem(&pc_socket_peers, &there, &peer, BPF_ANY))
		return false;
	return !keeps || !bpf_map_update_elem(&pc_socket_peers, asked, &peer, BPF_ANY);
}

/* The destination of a connection or a datagram to `addr` and `port`; both are changed for a
 * Service. `keeps`: the socket is unconnected, and its next datagrams go to the same endpoint.
 */
static __always_inline enum pc_socket_answer pc_socket_to(struct bpf_sock_addr *ctx, __u8 family,
							  struct pc_addr6 *addr, __be16 *port,
							  bool keeps)
{
	const struct pc_socket_host *host = pc_socket_host_of(ctx);
	struct pc_socket_key asked = {
	    .addr = *addr, .port = *port, .proto = ctx->protocol, .is_asked = 1};
	const struct pc_frontend *frontend;
	const struct pc_backend *backend = 0;
	struct pc_flow flow = {};
	__u32 state;

	if (!host || (asked.proto != IPPROTO_TCP && asked.proto != IPPROTO_UDP))
		return PC_SOCKET_AS_IS;
	state = pc_generation(&flow);
	if (!(state & PC_STATE_SERVICES))
		return PC_SOCKET_AS_IS;
	flow.tuple = (struct pc_tuple){
	    .saddr = family == PC_IPV4 ? host->addr4 : host->addr6,
	    .daddr = *addr,
	    .dport = *port,
	    .family = family,
	    .proto = asked.proto,
	};
	frontend = pc_socket_frontend(&flow.tuple, state);
	if (!frontend)
		return PC_SOCKET_AS_IS;
	asked.cookie = bpf_get_socket_cookie(ctx);
	if (keeps)
		backend = pc_socket_had(&asked);
	if (!backend)
		backend = pc_socket_backend_of(&flow, frontend, state);
	if (!backend || !pc_socket_remember(&asked, backend, keeps))
		return PC_SOCKET_REFUSED;
	*addr = backend->addr;
	*port = backend->port;
	return PC_SOCKET_CHANGED;
}

/* Whether the socket's remote address is an endpoint of a Service: then returns the Service's. */
static __always_inline bool pc_socket_from(struct bpf_sock_addr *ctx, struct pc_addr6 *addr,
					   __be16 *port)
{
	struct pc_socket_key there = {.addr = *addr, .port = *port, .proto = ctx->protocol};
	const struct pc_socket_peer *peer;

	if (!pc_socket_host_of(ctx))
		return false;
	there.cookie = bpf_get_socket_cookie(ctx);
	peer = bpf_map_lookup_elem(&pc_socket_peers, &there);
	if (!peer)
		return false;
	*addr = peer->addr;
	*port = peer->port;
	return true;
}
