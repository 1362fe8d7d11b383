/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sockets.h - connects the sockets of the node and of its pods to an endpoint of a Service
 * directly. Gives pc_socket_to(), pc_socket_from(), for hooks of a cgroup. They run in processes,
 * and packets may interrupt them: they must not use the other hooks' per-CPU scratch.
 */
#pragma once
#include "maglev.h"
#include "service_affinity.h"
#include "socket_client.h"
#include "socket_peers.h"
#include "source_range.h"
#include <linux/in.h>

enum pc_socket_answer { PC_SOCKET_AS_IS, PC_SOCKET_CHANGED, PC_SOCKET_REFUSED };

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

/* The Service at its own address, or as a node port at another node's address; for the node's own
 * processes also at the loopback address, which is a pod's own.
 */
static __always_inline const struct pc_frontend *
pc_socket_frontend(struct pc_tuple *t, const struct pc_socket_client *client, __u32 state)
{
	bool is_loopback = pc_is_loopback(t);
	const struct pc_frontend *found = is_loopback ? 0 : pc_frontend_of(t, state);

	if (found)
		return found;
	if (is_loopback ? !client->is_node : !pc_is_other_node(t))
		return 0;
	if (pc_addr_is_zero(&client->node_addr))
		return 0;
	t->daddr = client->node_addr;
	found = pc_frontend_of(t, state);
	if (!found || !(found->flags & PC_FRONTEND_NODE_PORT))
		return 0;
	return is_loopback || !(found->flags & PC_FRONTEND_LOCAL) ? found : 0;
}

/* A place in the pool: by the Maglev table if the Service has one, else at random. A socket may
 * have no source port yet, so its cookie distinguishes it from the client's other sockets.
 */
static __always_inline __u32 pc_socket_nth(struct pc_flow *flow, const struct pc_frontend *frontend,
					   const struct pc_pool *pool, __u64 cookie, __u32 state)
{
	__u32 n;

	if (!pool->slots)
		return bpf_get_prandom_u32() % pool->count;
	flow->tuple.sport = (__be16)cookie;
	n = pc_maglev_nth(&flow->tuple, pool, !frontend->affinity, state);
	return n < pool->count ? n : 0;
}

static __always_inline const struct pc_backend *
pc_socket_backend_of(struct pc_flow *flow, const struct pc_frontend *frontend, __u64 cookie,
		     __u32 state)
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
		backend =
		    pc_choice(&pool, pc_socket_nth(flow, frontend, &pool, cookie, state), state);
	if (!backend || !pc_backend_is_at(backend, &flow->tuple))
		return 0;
	if (frontend->affinity)
		pc_affine_note(flow, frontend, backend);
	return backend;
}

/* The destination of a connection or a datagram to `addr` and `port`; both are changed for a
 * Service. `keeps`: the socket is unconnected, and its next datagrams go to the same endpoint.
 *
 * Without an endpoint the node is refused here. A pod's packets are left to the hook of its device,
 * which drops or rejects them, and counts that.
 */
static __always_inline enum pc_socket_answer pc_socket_to(struct bpf_sock_addr *ctx, __u8 family,
							  struct pc_addr6 *addr, __be16 *port,
							  bool keeps)
{
	struct pc_socket_key asked = {
	    .addr = *addr, .port = *port, .proto = ctx->protocol, .is_asked = 1};
	struct pc_socket_client client = {};
	const struct pc_frontend *frontend;
	const struct pc_backend *backend = 0;
	struct pc_flow flow = {};
	__u32 state;

	if (!keeps) /* of a socket that was connected before */
		bpf_sk_storage_delete(&pc_socket_conns, ctx->sk);
	if (!pc_socket_client_of(ctx, family, &client) ||
	    (asked.proto != IPPROTO_TCP && asked.proto != IPPROTO_UDP))
		return PC_SOCKET_AS_IS;
	state = pc_generation(&flow);
	if (!(state & PC_STATE_SERVICES))
		return PC_SOCKET_AS_IS;
	flow.tuple = (struct pc_tuple){
	    .saddr = client.addr,
	    .daddr = *addr,
	    .dport = *port,
	    .family = family,
	    .proto = asked.proto,
	};
	frontend = pc_socket_frontend(&flow.tuple, &client, state);
	if (!frontend)
		return PC_SOCKET_AS_IS;
	asked.cookie = bpf_get_socket_cookie(ctx);
	if (keeps)
		backend = pc_socket_kept(&asked);
	if (!backend)
		backend = pc_socket_backend_of(&flow, frontend, asked.cookie, state);
	if (!backend ||
	    !(keeps ? pc_socket_keep(&asked, backend) : pc_socket_connected(ctx, &asked, backend)))
		return client.is_node ? PC_SOCKET_REFUSED : PC_SOCKET_AS_IS;
	*addr = backend->addr;
	*port = backend->port;
	return PC_SOCKET_CHANGED;
}

/* Whether the socket's remote address is an endpoint of a Service: then returns the Service's. */
static __always_inline bool pc_socket_from(struct bpf_sock_addr *ctx, __u8 family,
					   struct pc_addr6 *addr, __be16 *port)
{
	struct pc_socket_client client = {};

	return pc_socket_client_of(ctx, family, &client) && pc_socket_asked(ctx, addr, port);
}
