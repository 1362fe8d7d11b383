/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bypass_conn.h - what is kept of a socket that was added to the bypass.
 * Gives struct pc_bypass_key, struct pc_bypass_conn and pc_bypass_conns, the storage of sockets.
 */
#pragma once
#include "flow.h"

/* One end of a connection. No two connections have the same number. */
struct pc_bypass_key {
	__u64 connection;
	__u32 is_opener;
	__u32 zero;
};

/* What a socket sends. */
struct pc_bypass_conn {
	struct pc_bypass_key key;        /* its own */
	__u64 netns, socket;             /* cookies, which a listing fills in */
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
	__u32 is_tls; /* it has sent a TLS handshake since it was added: for good */
};
_Static_assert(sizeof(struct pc_bypass_conn) == 160, "no hidden padding");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pc_bypass_conn);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_bypass_conns SEC(".maps");
