/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_entry.h - what is known of a connection.
 * Gives struct pc_ct and its parts. An entry is there only for a flow that is allowed, or was: see
 * pc_ct_deny().
 */
#pragma once
#include "ct_key.h"

/* Of a connection to a Service. */
struct pc_ct_nat {
	__be16 port; /* the client's, as it is in the tuple of the other half (ct_front.h) */
	__u32 row;   /* the endpoint's, of service_map.h */
} __attribute__((packed));

/* One end of a connection, as far as this node has it: ifindex 0 means it has not. */
struct pc_ct_end {
	__u32 ifindex;
	union {
		__u8 mac[PC_MAC_LEN]; /* or that of whoever is next on the way there, with `out` */
		/* Of a client outside, of a Service: the node that has the endpoint, if PC_CT_FAR;
		 * else the one that the client came to. 0: this one.
		 */
		struct {
			__u32 node;
			__u16 zero;
		} __attribute__((packed));
	};
	union {
		__u8 gateway[PC_MAC_LEN]; /* whom frames to it come from, if PC_CT_CAME_* */
		struct pc_ct_nat nat;     /* of the end that this entry hands nothing to */
	};
};

enum pc_decided { PC_DECIDED_SRC = 1, PC_DECIDED_DST = 2 };

/* src and dst are those of the flow's first packet. */
struct pc_ct {
	__u64 expires; /* a tick; decided at lookup, so it holds while no agent runs */
	__u32 flow_id;
	__u32 epoch; /* of the policy that decided */
	__u32 state; /* enum pc_ct_state */
	__u32 egress_rule, ingress_rule;
	struct pc_ct_end src, dst;
	__u8 back;    /* the first packet ran from hi to lo */
	__u8 decided; /* enum pc_decided: the ends whose policy has allowed it */
	__u8 peers;   /* the same bits: the ends that packets of the other may be handed to */
	__u8 out;     /* how packets leave the node (forward_out.h); 0: the stack knows */
};
_Static_assert(sizeof(struct pc_ct) == 64, "one cache line");
