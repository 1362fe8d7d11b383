/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bypass_map.h - the sockets whose data may bypass the TCP/IP stack of the node.
 * Gives struct pc_bypass_conn and its maps.
 *
 * Both ends of such a connection are sockets of pods of this node. A message of one end goes to a
 * queue of the other end's socket, which its reader empties before the queue of the stack. So a
 * direction may leave the bypass at any time. It enters the bypass when the receiver has read all
 * that the stack brought. Why: docs/decisions/0052-same-node-tcp.md
 */
#pragma once
#include "flow.h"

#define PC_BYPASS_SOCKETS 65536

/* Why a message goes by the stack. */
enum pc_bypass_by_stack {
	PC_BYPASS_NOT = 0,   /* it does not */
	PC_BYPASS_POLICY,    /* the active policy has not decided the connection yet */
	PC_BYPASS_ALONE,     /* the other end's socket is not there */
	PC_BYPASS_PENDING,   /* the receiver has not read what the stack brought */
	PC_BYPASS_UNREAD,    /* the receiver has not read what the bypass brought: it is too much */
	PC_BYPASS_UNTRACKED, /* conntrack has no entry that allows the connection */
	PC_BYPASS_REASONS
};

/* One end of a connection. No two connections have the same number. */
struct pc_bypass_key {
	__u64 connection;
	__u32 is_opener;
	__u32 zero;
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

/* What a socket sends. */
struct pc_bypass_conn {
	struct pc_bypass_key key;        /* its own */
	__u64 since;                     /* the tick when it was added */
	__u64 messages, bytes;           /* that were bypassed */
	__u64 read_messages, read_bytes; /* of these, what the receiver has read at least */
	__u64 tracked;                   /* the tick when conntrack was told last */
	__u64 peer;                      /* the kernel's address of the other end's struct sock */
	__u64 told;                      /* its own entry of pc_bypass_read, as it wrote it */
	struct pc_tuple tuple;           /* from the opener to the other end */
	__u32 epoch;                     /* of the policy that allows the connection */
	__u32 sent_seq; /* the TCP sequence number after what was sent by the stack */
	__u32 egress_rule, ingress_rule;
	__u32 is_bypassed;
	__u32 zero;
};
_Static_assert(sizeof(struct pc_bypass_conn) == 144, "no hidden padding");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pc_bypass_conn);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_bypass_conns SEC(".maps");

/* The host-side devices of pods whose data may bypass the stack -> 1. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_bypass_pods SEC(".maps");

/* Rules of policies whose connections stay with the stack -> 1. */
struct pc_bypass_rule {
	__u32 epoch, rule;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 131072);
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
