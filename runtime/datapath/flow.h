/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* flow.h - what the hooks learn about a packet, and pass to the policy program.
 * Gives struct pc_tuple, struct pc_endpoint, struct pc_flow and their per-CPU scratch.
 *
 * The verifier checks a __noinline function apart from its callers. So such a function tests its
 * pointers, and returns any drop for a null pointer. No caller passes one.
 */
#pragma once
#include "steps.h"

#define PC_ENDPOINT_NODE 1 /* a node, which policies distinguish from an address; never a pod */
#define PC_ENDPOINT_PEER 2 /* its veth's peer is in another namespace: forward.h may redirect */
#define PC_ENDPOINT_HOST 4 /* this node itself, under host policy (host_end.h) */
/* The flags above this shift: 1 + the node's id for the pod's network namespace; 0: not known. */
#define PC_ENDPOINT_NETNS_SHIFT 3

/* In the number of a device: an ipvlan slave, in its pod's network namespace (device.h). No ifindex
 * has this bit.
 */
#define PC_SLAVE 0x80000000

/* A pod, or a node. id 0: neither. ifindex 0: no pod of this node, and mac is then zero too. */
struct pc_endpoint {
	__u32 id;
	__u32 ifindex; /* the host-side veth, or PC_SLAVE and a number */
	__u8 mac[PC_MAC_LEN];
	__u16 flags; /* PC_ENDPOINT_* */
};
_Static_assert(sizeof(struct pc_endpoint) == 16, "the loader packs it from BTF, without padding");

static __always_inline bool pc_is_pod(const struct pc_endpoint *ep)
{
	return ep->id && !(ep->flags & PC_ENDPOINT_NODE);
}

/* The connection's tuple, in the direction of the packet or of the flow. ICMP has no ports: an echo
 * request runs (src, id) -> (dst, 0), its reply (src, 0) -> (dst, id), so a request in the other
 * direction is a flow of its own. Every other ICMP message has type << 8 | code as its source port;
 * `sub` distinguishes those from echoes with the same number.
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

/* How the opener of the connection is known. Policy decides the direction from opener to peer. */
enum pc_opener {
	PC_OPENER_KNOWN = 0, /* the tuple's source: a SYN, an entry or a socket shows it */
	PC_OPENER_TRY_BOTH,  /* not known: the policy program decides the tuple, then its reverse */
	PC_OPENER_EITHER,    /* not known, and policy allows the reverse of the tuple */
	PC_OPENER_CROSSED,   /* both ends: this SYN meets a connection that the peer has opened */
	PC_OPENER_CLAIMED,   /* the source, says a socket that its pod can forge (end_socket.h) */
	PC_OPENER_OWN_NODE,  /* the pod's own node: only own-node rules apply (own_node.h) */
};

/* What a packet to a Service had in the fields of its tuple that are now translated. */
struct pc_nat {
	__u32 backend; /* of pc_backends, the endpoint that it was translated to; 0: none */
	__be16 dport, sport;
	struct pc_addr6 daddr;
};

/* The checksum that CHECKSUM_PARTIAL leaves to the device (offload.h): none, the transport
 * header's, one in the data, or one at an invalid offset.
 */
enum pc_csum_partial { PC_PARTIAL_NONE = 0, PC_PARTIAL_L4, PC_PARTIAL_DATA, PC_PARTIAL_INVALID };

/* The client of a Service: it selects the pool, and the path of the reply. */
enum pc_client {
	PC_CLIENT_POD = 0, /* of this node: external traffic policies do not apply */
	PC_CLIENT_EXTERNAL,
	PC_CLIENT_FORWARDED, /* external: another node forwarded its packet to this node */
	PC_CLIENT_NODE,      /* this node itself, by a route (to_route.h); selects as a pod does */
};

#define PC_REDIRECTED 0x80000000 /* in forward_to: a redirect helper was called for the packet */

/* What the parser found. The offsets count from the start of the frame. */
struct pc_packet {
	__u32 ip_end; /* the first offset behind the IP datagram; padding follows */
	__be32 frag_id;
	__u16 l4;        /* offset of the transport header */
	__u16 ethertype; /* host order */
	__u16 icmp;      /* type << 8 | code */
	__u8 smac[PC_MAC_LEN];
	__u8 tcp_flags; /* for SCTP the equivalents of its first chunk */
	__u8 hop_limit;
	__u8 is_opening; /* a packet that can only begin a flow: SYN, INIT, echo request */
	__u8 fragment;
	__u8 frag_proto;   /* from the fragment header, which precedes other extensions */
	__u8 csum_partial; /* enum pc_csum_partial */
	__u8 is_summed;    /* the kernel has the sum over the whole packet (CHECKSUM_COMPLETE) */
	__u8 zero;
};

/* What is to be done with the packet, and with its connection's entry. */
struct pc_action {
	__u32 forward_to;        /* the device, or its peer, that gets it; 0: stack path */
	__u32 mtu;               /* the MTU that it exceeds; 0: it is not too big */
	__u32 node;              /* the node to which or by which it is forwarded; 0: none */
	__u32 frag_backend;      /* the backend by which later fragments are translated */
	enum drop_reason reason; /* the packet's fate, for tracing; also names them in BTF */
	__u8 entry_op;           /* enum pc_entry */
	__u8 policy_slot;        /* of the policy program that decides, for PC_OPENER_TRY_BOTH */
	__u8 is_related;         /* an ICMP error about a connection that is allowed */
	__u8 is_kept;            /* once a second: a connection between pods is extended */
};

/* A packet's flow: its ends, and the direction in which it is decided. */
struct pc_flow {
	struct pc_tuple tuple;       /* the packet's; for the policy program, that of the opener */
	struct pc_endpoint src, dst; /* of the same direction as the tuple */
	__u64 now;                   /* in kernel ticks */
	__u32 second;                /* ticks per second */
	__u32 epoch;
	__u8 is_reply;                /* the packet runs against the tuple */
	__u8 has_established_entry;   /* an entry, perhaps unusable, is in the established table */
	__u8 has_established_pre_nat; /* the same for the tuple before translation */
	__u8 client;     /* enum pc_client: the end that sends to a Service, or is answered */
	__u8 opener;     /* enum pc_opener */
	__u8 may_link;   /* to an endpoint of another node: whether by the link (link_forward.h) */
	__u8 was_silent; /* the same: the path that the entry holds may be an old one */
	__u8 came_by; /* a new connection of an external client: its uplink (external_forward.h) */
	__u8 fits;    /* into the MTU of the device that it is redirected to (mtu.h) */
	__u8 zero[5];
	__u16 stamp;  /* enum pc_stamp: at an ipvlan slave, where the packet came from */
	__u32 device; /* at which the hook runs: its ifindex, or PC_SLAVE and a number */
	struct pc_packet packet;
	struct pc_action action;
	struct pc_nat nat; /* last: pc_parse() clears what is before it, and its backend */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_flow);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_scratch SEC(".maps");

/* This CPU's scratch as the last program left it. Hooks run with softirqs off: no nesting. */
static __always_inline struct pc_flow *pc_flow_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pc_scratch, &zero);
}

/* The return value of a hook for a packet that passes or is dropped, or for a step that this hook
 * cannot end.
 */
static __always_inline int pc_finish(struct pc_flow *flow, int step)
{
	flow->action.reason = step < 0 ? -step : step;
	return pc_tc_action(flow->action.reason);
}
