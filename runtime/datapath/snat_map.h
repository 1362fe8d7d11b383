/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* snat_map.h - the SNAT table: pods that leave the cluster under the node's address.
 * Gives struct pc_snat_key, struct pc_snat_entry, pc_snat_find(), pc_snat_other(), pc_snat_own(),
 * pc_snat_is_port(). The loader writes pc_snat and pc_snat_except (runtime/snat/snat.py). Why:
 * docs/decisions/0030-masquerade.md
 *
 * The two directions have different tuples, so two SNAT entries: the pod-side entry has the pod's
 * tuple, the wire-side entry the tuple on the wire. Each is valid only with the other.
 */
#pragma once
#include "ct_state.h"
#include "quota.h"
#include "external_map.h"

#define PC_SNAT_ENTRIES 131072 /* entries, of both families */
#define PC_SNAT_EXCEPT  1024

/* The node's address at an uplink; zero if it has none of that family. */
struct pc_snat_own {
	__u32 uplink; /* 0: end of the list */
	__u32 zero;
	struct pc_addr6 own4, own6;
};

/* The configuration of the last load. Ports are in host order, and both bounds are included. */
struct pc_snat_conf {
	__u32 low, high;
	struct pc_snat_own at[PC_UPLINKS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_snat_conf);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_snat SEC(".maps");

/* An echo has its id as port, and 0 as the other side's port. */
struct pc_snat_key {
	struct pc_addr6 here, there; /* the pod's or the node's; the remote end's */
	__be16 port, there_port;
	__u8 family;
	__u8 proto;
	__u8 is_out; /* wire-side entry: `here` is the node's address */
	__u8 zero;
};
_Static_assert(sizeof(struct pc_snat_key) == 40, "a map key has no hidden padding");

/* The key of a packet that is sent from `here` or to `here`. */
static __always_inline void pc_snat_set_ends(struct pc_snat_key *key, const struct pc_flow *flow,
					     bool is_sent)
{
	key->here = is_sent ? flow->tuple.saddr : flow->tuple.daddr;
	key->there = is_sent ? flow->tuple.daddr : flow->tuple.saddr;
	key->port = is_sent ? flow->tuple.sport : flow->tuple.dport;
	key->there_port = is_sent ? flow->tuple.dport : flow->tuple.sport;
	key->family = flow->tuple.family;
	key->proto = flow->tuple.proto;
}

/* A CPU is checking which connection owns the entry, or writes it (pc_snat_lock() of snat_owner.h).
 * Packets of established connections need no check, and leave the bit unchanged.
 */
#define PC_SNAT_TAKING (1U << 31)

/* The external host answered, with a packet other than a RST; then the pod sent again. TCP only: a
 * FIN from outside has a sequence number that the pod has not acknowledged beyond (snat_state.h).
 */
#define PC_SNAT_ANSWERED    (1U << 30)
#define PC_SNAT_ESTABLISHED (1U << 29)
#define PC_SNAT_FIN_SEEN    (1U << 28)

struct pc_snat_entry {
	__u64 expires;        /* a tick, compared at lookup */
	struct pc_addr6 addr; /* the other entry's address in place of `here` */
	__be16 port;
	__u16 zero;
	__u32 state;  /* of enum pc_ct_state: REPLIED, FIN_*, RESET; and PC_SNAT_* above */
	__u32 epoch;  /* the last epoch in which the pod was seen to own its address */
	__u32 device; /* the pod's; 0: the node's own connection */
	__u32 uplink;
	__u32 id;  /* the same in both entries */
	__u32 fin; /* acknowledgement number for the FIN from outside (PC_SNAT_FIN_SEEN) */
	__u32 zero2;
};
_Static_assert(sizeof(struct pc_snat_entry) == 56, "without padding");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_SNAT_ENTRIES);
	__type(key, struct pc_snat_key);
	__type(value, struct pc_snat_entry);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_snat_entries SEC(".maps");

PC_PLACES(pc_snat_place, PC_SNAT_ENTRIES, struct pc_snat_key);

/* Networks that pods reach under their own address. */
struct pc_snat_net {
	__u32 length; /* prefix length: bits of the following fields */
	__be32 family;
	struct pc_addr6 addr;
};
_Static_assert(sizeof(struct pc_snat_net) == 24, "a map key has no hidden padding");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, PC_SNAT_EXCEPT);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pc_snat_net);
	__type(value, __u32); /* 1 */
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_snat_except SEC(".maps");

static __always_inline const struct pc_snat_conf *pc_snat_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pc_snat, &zero);
}

static __always_inline bool pc_snat_is_port(const struct pc_snat_conf *conf, __be16 port)
{
	__u32 number = bpf_ntohs(port);

	return number >= conf->low && number <= conf->high;
}

/* The node's address at the uplink; NULL: none. */
static __always_inline const struct pc_addr6 *pc_snat_own(const struct pc_snat_conf *conf,
							  __u8 family, __u32 uplink)
{
	const struct pc_addr6 *own;

#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_UPLINKS; i++) {
		if (conf->at[i].uplink != uplink)
			continue;
		own = family == PC_IPV4 ? &conf->at[i].own4 : &conf->at[i].own6;
		return pc_addr_is_zero(own) ? 0 : own;
	}
	return 0;
}

/* Whether it is the node's address at any uplink: a reply may come in by another one. */
static __always_inline bool pc_snat_is_own(const struct pc_snat_conf *conf, __u8 family,
					   const struct pc_addr6 *addr)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_UPLINKS; i++) {
		if (!conf->at[i].uplink)
			return false;
		if (pc_addr_eq(family == PC_IPV4 ? &conf->at[i].own4 : &conf->at[i].own6, addr))
			return true;
	}
	return false;
}

static __always_inline struct pc_snat_entry *pc_snat_find(const struct pc_flow *flow,
							  const struct pc_snat_key *key)
{
	struct pc_snat_entry *end = bpf_map_lookup_elem(&pc_snat_entries, key);

	return end && end->expires > flow->now ? end : 0;
}

/* The other entry; its key replaces this one's. NULL: it is gone, or of another connection. */
static __always_inline struct pc_snat_entry *
pc_snat_other(const struct pc_flow *flow, struct pc_snat_key *key, const struct pc_snat_entry *end)
{
	struct pc_snat_entry *other;

	key->here = end->addr;
	key->port = end->port;
	key->is_out = !key->is_out;
	other = pc_snat_find(flow, key);
	return other && other->id == end->id ? other : 0;
}
