/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_map.h - conntrack: one entry per connection, in one of two tables per family.
 * Gives struct pc_ct, struct pc_ct_at and get, delete. An entry exists only for a flow that is
 * allowed, or was allowed (pc_ct_deny()).
 *
 * A flow begins in the small new-connection table. It moves to the large established table when
 * both ends have sent and the first end again. So a flood of first packets, answered or not, ends
 * no established connection. A pod may fill a quarter of each table (ct_room.h).
 */
#pragma once
#include "ct_key.h"
#include "quota.h"

#define PC_CT4_ENTRIES 131072
#define PC_CT6_ENTRIES 65536
#define PC_NEW_ENTRIES                                                                             \
	32768 /* what a flood may fill; a flow needs its place until it is answered */

/* The translation of a connection to a Service. */
struct pc_ct_nat {
	__be16 port;   /* the client's, as in the tuple of the other entry (ct_pre_nat.h) */
	__u32 backend; /* its id in service_map.h */
} __attribute__((packed));

/* One end of a connection, as this node knows it. ifindex 0: not an end of this node. */
struct pc_ct_end {
	__u32 ifindex;
	__u8 mac[PC_MAC_LEN]; /* with `out`: the MAC of the next hop towards the end */
	union {
		__u8 gateway[PC_MAC_LEN]; /* source MAC of frames to this end, with PC_CT_CAME_* */
		struct pc_ct_nat nat;     /* at the end to which this entry redirects nothing */
	};
};

enum pc_decided { PC_DECIDED_SRC = 1, PC_DECIDED_DST = 2 };

#define PC_OUT_NO_LINK 0x0f /* the other node takes no packets by the link (link_forward.h) */

/* src and dst are the ends of the flow's first packet. The table outlives a load: a field that gets
 * another meaning needs another name, by which a load refuses it (runtime/kernel/shared_maps.py).
 */
struct pc_ct {
	__u64 expires; /* a tick; compared at lookup, so it holds while no agent runs */
	__u32 flow_id;
	__u32 epoch; /* of the policy that decided */
	__u32 state; /* enum pc_ct_state */
	__u32 egress_rule, ingress_rule;
	struct pc_ct_end src, dst;
	__u8 back;    /* the first packet runs from hi to lo */
	__u8 decided; /* enum pc_decided: the ends whose policy has allowed it */
	__u8 peers;   /* the same bits: ends to which the other end's packets may be redirected */
	/* How packets leave the node (forward_out.h); 0: by the stack path. For a pre-NAT entry of
	 * an external client: how they come (external_forward.h). With PC_CT_OTHER_NODE:
	 * how they go by the link, to the MAC of dst (link_forward.h), or PC_OUT_NO_LINK.
	 */
	__u8 out;
};
_Static_assert(sizeof(struct pc_ct) == 64, "one cache line");

#define PC_CT_TABLE(name, kind, entries, key_type)                                                 \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__uint(max_entries, entries);                                                      \
		__type(key, key_type);                                                             \
		__type(value, struct pc_ct);                                                       \
		__uint(pinning, LIBBPF_PIN_BY_NAME);                                               \
	} name SEC(".maps")

PC_CT_TABLE(pc_ct4, BPF_MAP_TYPE_HASH, PC_CT4_ENTRIES, struct pc_ct4_key);
PC_CT_TABLE(pc_ct6, BPF_MAP_TYPE_HASH, PC_CT6_ENTRIES, struct pc_ct6_key);
PC_CT_TABLE(pc_ct4_new, BPF_MAP_TYPE_HASH, PC_NEW_ENTRIES, struct pc_ct4_key);
PC_CT_TABLE(pc_ct6_new, BPF_MAP_TYPE_HASH, PC_NEW_ENTRIES, struct pc_ct6_key);

/* The places of both tables, as quota.h defines them. */
PC_PLACES(pc_place4, PC_CT4_ENTRIES, struct pc_ct4_key);
PC_PLACES(pc_place6, PC_CT6_ENTRIES, struct pc_ct6_key);
PC_PLACES(pc_place4_new, PC_NEW_ENTRIES, struct pc_ct4_key);
PC_PLACES(pc_place6_new, PC_NEW_ENTRIES, struct pc_ct6_key);

/* An entry, as one of its packets finds it. */
struct pc_ct_at {
	struct pc_ct *ct;    /* NULL: no entry */
	bool back;           /* the packet's tuple runs from hi to lo */
	bool is_established; /* in the established table */
};

/* The entry of either direction. `surely`: finds the entry also while it moves between the tables.
 */
static __always_inline struct pc_ct_at pc_ct_get(const struct pc_tuple *t, bool surely)
{
	struct pc_ct_at at = {};
	struct pc_ct4_key key4;
	struct pc_ct6_key key6;

	if (t->family == PC_IPV4) {
		at.back = pc_ct4_key_of(&key4, t);
		at.ct = bpf_map_lookup_elem(&pc_ct4, &key4);
		at.is_established = at.ct;
		if (!at.ct)
			at.ct = bpf_map_lookup_elem(&pc_ct4_new, &key4);
		if (!at.ct && surely) {
			at.ct = bpf_map_lookup_elem(&pc_ct4, &key4);
			at.is_established = at.ct;
		}
	} else {
		at.back = pc_ct6_key_of(&key6, t);
		at.ct = bpf_map_lookup_elem(&pc_ct6, &key6);
		at.is_established = at.ct;
		if (!at.ct)
			at.ct = bpf_map_lookup_elem(&pc_ct6_new, &key6);
		if (!at.ct && surely) {
			at.ct = bpf_map_lookup_elem(&pc_ct6, &key6);
			at.is_established = at.ct;
		}
	}
	return at;
}

/* A separate function, for its own stack frame. */
__noinline int pc_ct_delete(const struct pc_tuple *t)
{
	struct pc_ct4_key key4;
	struct pc_ct6_key key6;

	if (!t)
		return 0;
	if (t->family == PC_IPV4) {
		pc_ct4_key_of(&key4, t);
		bpf_map_delete_elem(&pc_ct4, &key4);
		return bpf_map_delete_elem(&pc_ct4_new, &key4);
	}
	pc_ct6_key_of(&key6, t);
	bpf_map_delete_elem(&pc_ct6, &key6);
	return bpf_map_delete_elem(&pc_ct6_new, &key6);
}
