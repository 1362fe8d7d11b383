/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bypass_map.h - the sockets whose data may bypass the TCP/IP stack of the node.
 * Gives the maps, pc_bypass_counts(), pc_bypass_other().
 *
 * Both ends of such a connection are sockets of pods of this node. A message of one end goes to a
 * queue of the other end's socket, which its reader empties before the queue of the stack. So a
 * direction may leave the bypass at any time. It enters the bypass when the receiver has read all
 * that the stack brought. Why: docs/decisions/0052-same-node-tcp.md
 */
#pragma once
#include "bypass_conn.h"

#define PC_BYPASS_SOCKETS 65536
#define PC_BYPASS_PODS    4096  /* of a generation */
#define PC_BYPASS_RULES   65536 /* of a generation */

/* Why a message goes by the stack. */
enum pc_bypass_by_stack {
	PC_BYPASS_NOT = 0,   /* it does not */
	PC_BYPASS_POLICY,    /* the active policy has not decided the connection yet */
	PC_BYPASS_ALONE,     /* the other end's socket is not there */
	PC_BYPASS_PENDING,   /* the receiver has not read what the stack brought */
	PC_BYPASS_UNREAD,    /* the receiver has not read what the bypass brought: it is too much */
	PC_BYPASS_UNTRACKED, /* conntrack has no entry that allows the connection */
	PC_BYPASS_TLS,       /* the connection has begun TLS */
	PC_BYPASS_REASONS
};

/* The kernel removes a socket that is closed. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, PC_BYPASS_SOCKETS);
	__type(key, struct pc_bypass_key);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_bypass_socks SEC(".maps");

/* What an end has read of what the stack brought: PC_BYPASS_READ | the next TCP sequence number. No
 * thread waited in a recv() then: it would see only what the stack brings, if it began before the
 * socket was added. An end whose entry is evicted makes it again.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PC_BYPASS_SOCKETS);
	__type(key, struct pc_bypass_key);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_bypass_read SEC(".maps");
#define PC_BYPASS_READ (1ULL << 32)

/* What a load says of its generation: (epoch, host-side device of a pod) -> 1, if its data may
 * bypass the stack.
 */
struct pc_bypass_pod {
	__u32 epoch, device;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * PC_BYPASS_PODS);
	__type(key, struct pc_bypass_pod);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_bypass_pods SEC(".maps");

/* (epoch, rule of a policy) -> 1, if its connections stay with the stack. */
struct pc_bypass_rule {
	__u32 epoch, rule;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * PC_BYPASS_RULES);
	__type(key, struct pc_bypass_rule);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_bypass_not SEC(".maps");

/* Since the first load with a bypass. */
struct pc_bypass_count {
	__u64 connections, messages, bytes;
	__u64 left[PC_BYPASS_REASONS]; /* how often a direction left the bypass */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_bypass_count);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_bypass_count SEC(".maps");

static __always_inline struct pc_bypass_count *pc_bypass_counts(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pc_bypass_count, &zero);
}

/* The key of the other end. */
static __always_inline struct pc_bypass_key pc_bypass_other(const struct pc_bypass_key *key)
{
	return (struct pc_bypass_key){.connection = key->connection, .is_opener = !key->is_opener};
}
