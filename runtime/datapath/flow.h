/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* flow.h - what the hooks learn about a packet, and hand to the policy program.
 * Gives struct pc_tuple, struct pc_endpoint, struct pc_flow, the per-CPU scratch it lives in.
 */
#pragma once
#include "drops.h"

#define PC_ENDPOINT_NODE 1 /* a node, which policies can tell from an address; never a pod */
#define PC_ENDPOINT_PEER 2 /* the other side of its veth is elsewhere: forward.h may hand over */
#define PC_ENDPOINT_HOST 4 /* this node itself, which policies guard (host_end.h) */
/* From this bit on: 1 + the id that the node has for the pod's network namespace; 0: not known. */
#define PC_ENDPOINT_NETNS 3

/* A pod, or a node. id 0: neither. ifindex 0: not a pod of this node, and then mac is zero too. */
struct pc_endpoint {
	__u32 id;
	__u32 ifindex; /* the host's side of its veth */
	__u8 mac[PC_MAC_LEN];
	__u16 flags; /* PC_ENDPOINT_* */
};
_Static_assert(sizeof(struct pc_endpoint) == 16, "the loader packs it from BTF, without padding");

static __always_inline bool pc_is_pod(const struct pc_endpoint *ep)
{
	return ep->id && !(ep->flags & PC_ENDPOINT_NODE);
}

/* What tells one conversation from another, in the direction of the packet or of the flow.
 * ICMP has no ports: an echo request runs (src, id) -> (dst, 0), its reply (src, 0) -> (dst, id),
 * so that a request the other way is a flow of its own. Every other ICMP message has
 * type << 8 | code as source port; `sub` keeps those apart from echoes with the same number.
 */
struct pc_tuple {
	struct pc_addr6 saddr, daddr;
	__be16 sport, dport;
	__u8 family; /* PC_IPV4, PC_IPV6, or 0: not IP */
	__u8 proto;
	__u8 sub; /* enum pc_sub */
	__u8 zero;
};

enum pc_sub { PC_SUB_NONE = 0, PC_SUB_ICMP_OTHER = 1 };

enum pc_fragment { PC_FRAG_NONE = 0, PC_FRAG_FIRST, PC_FRAG_LATER };

/* What the policy program does with the connection's entry. */
enum pc_entry { PC_ENTRY_INSERT = 0, PC_ENTRY_RENEW };

/* Which end has opened the connection of a packet, and so in which direction it is decided. */
enum pc_opener {
	PC_OPENER_KNOWN = 0, /* `t` runs from it: the packet opens, or an entry or a socket tells */
	PC_OPENER_PROBE,   /* not known: the policy program decides `t`, then the other direction */
	PC_OPENER_EITHER,  /* not known: the other direction is allowed */
	PC_OPENER_CROSSED, /* both: the packet opens, against a connection that is there */
	PC_OPENER_CLAIMED, /* a socket claims it that its pod may have forged (end_socket.h) */
	PC_OPENER_OWN_NODE, /* the pod's own node, which few rules are about (own_node.h) */
};

/* What a packet to a Service had in the place of what is in its tuple by now. */
struct pc_nat {
	__u32 row; /* of pc_rows, which says what it was translated to; 0: it was not */
	__be16 dport, sport;
	struct pc_addr6 daddr;
};

/* Which checksum is left to the device (offload.h): none, the transport header's, one in its data,
 * or what is none.
 */
enum pc_partial { PC_PARTIAL_NOT = 0, PC_PARTIAL_OWN, PC_PARTIAL_DATA, PC_PARTIAL_WRONG };

/* Whom an endpoint is chosen for. */
enum pc_client {
	PC_CLIENT_POD = 0, /* of this node, of which the traffic policies of outside do not speak */
	PC_CLIENT_OUTSIDE,
	PC_CLIENT_HANDED, /* from outside, and by the node that it came to to this one */
	PC_CLIENT_NODE,   /* this node itself, by a route (to_route.h); given what a pod is */
};

#define PC_SENT 0x80000000 /* of forward_to: the kernel was told, and has to be let */

struct pc_flow {
	struct pc_tuple t; /* of the packet; before the tail call, of the flow's first packet */
	struct pc_endpoint src, dst; /* of the same direction as t */
	__u64 now;                   /* in the kernel's ticks */
	__u32 second;                /* as many of them */
	__u32 epoch;
	__u32 end; /* offset just behind the IP datagram; behind it is padding */
	__be32 frag_id;
	__u16 l4;        /* offset of the transport header */
	__u16 ethertype; /* host order */
	__u16 icmp;      /* type << 8 | code */
	__u8 smac[PC_MAC_LEN];
	__u8 tcp_flags; /* of SCTP those that mean as much as its first chunk */
	__u8 hop_limit;
	__u8 opens; /* a packet that only ever begins a flow: SYN, INIT, echo request */
	__u8 fragment;
	__u8 frag_proto; /* as the fragment header says it, which is before other extensions */
	__u8 entry;
	__u8 is_reply; /* the packet at hand runs against t */
	__u8 is_kept;  /* there is an entry, perhaps of no use, in the table that evicts nothing */
	__u8 is_front_kept; /* the same of the tuple before it was translated */
	__u8 partial;       /* enum pc_partial */
	__u8 is_summed;     /* the device that brought it has summed all of it */
	__u8 client;        /* enum pc_client: who sends it to a Service, or is answered */
	__u8 is_refused;    /* a Service has nobody for it, and says so */
	__u8 is_related;    /* an ICMP error about a connection that is allowed */
	__u8 opener;        /* enum pc_opener */
	__u8 slot;          /* of the policy program that decides, for PC_OPENER_PROBE */
	__u32 frag_row;     /* by which row the fragments that follow this one are translated */
	__u32 forward_to;   /* the device, or whose peer, gets it; 0: the host's stack does */
	__u32 mtu;          /* what it should have been small enough for; 0: it is not too big */
	__u32 node;         /* to which it is handed over, or that has handed it over; 0: none */
	enum drop_reason reason; /* what became of it, for whoever traces; also names them in BTF */
	struct pc_nat nat;       /* last, as pc_parse() clears what is before it, and its row */
};
/* By this size libbpf tells that maps which are in use hold connections of another layout. */
_Static_assert(sizeof(struct pc_flow) == 168, "another one where struct pc_ct changes");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_flow);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_scratch SEC(".maps");

/* The scratch of this CPU as the last program left it. Hooks run with softirqs off: no nesting. */
static __always_inline struct pc_flow *pc_flow_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pc_scratch, &zero);
}
