/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* snat.h - which connections get SNAT, and from which SNAT port.
 * Gives pc_snat_leaves(), pc_snat_open(), pc_snat_write().
 */
#pragma once
#include "snat_owner.h"
#include "nat.h"
#include "offload.h"

#define PC_SNAT_SHARED 1024 /* ports: of a range this large or larger, a pod may use half */
#define PC_SNAT_TRIES  32   /* ports that a new connection tries, and then as many again */
#define PC_ECHO_ID_AT  4

/* As pc_snat_holds(), for the pod-side entry. The last load must still allow this way out.
 */
static __always_inline bool pc_snat_leaves(const struct pc_flow *flow, struct pc_snat_entry *end,
					   const struct pc_snat_key *key)
{
	const struct pc_snat_conf *conf = pc_snat_now();
	const struct pc_addr6 *own;

	if (end->epoch == flow->epoch)
		return true;
	own = conf ? pc_snat_own(conf, key->family, end->uplink) : 0;
	if (!own || !pc_addr_eq(own, &end->addr) ||
	    (key->proto != IPPROTO_SCTP && !pc_snat_is_port(conf, end->port)))
		return false;
	return pc_snat_holds(flow, end, &key->here, &key->there);
}

/* Whether the packet has a port or id by which its reply can be looked up. */
static __always_inline bool pc_snat_has_port(const struct pc_flow *flow)
{
	if (pc_is_icmp(&flow->tuple))
		return flow->tuple.sub == PC_SUB_NONE && !pc_is_echo_reply(flow);
	return pc_l4_header(&flow->tuple);
}

/* Where a connection begins its search for a port, and the step of that search. Each connection has
 * its own start. It stays the same, so an evicted connection finds its port again.
 */
static __always_inline __u64 pc_snat_spread(const struct pc_tuple *t)
{
	__u64 mixed = (pc_addr6_high(&t->saddr) * PC_EP_STIR ^ pc_addr6_low(&t->saddr)) +
		      ((__u64)t->sport << 16 | t->dport);

	mixed *= PC_EP_SPREAD;
	return (mixed ^ mixed >> 32) * PC_EP_STIR;
}

/* How many ports of the range an owner may use towards one remote address and port. In a large
 * range a pod may use every other port, so that it leaves ports to other pods.
 */
static __always_inline __u32 pc_snat_share(const struct pc_snat_conf *conf, __u32 device)
{
	__u32 size = conf->high - conf->low + 1;

	return device && size >= PC_SNAT_SHARED ? size / 2 : size;
}

/* The port at an index. A pod's share has one port of each pair. */
static __always_inline __u32 pc_snat_port_at(const struct pc_snat_conf *conf, __u32 device,
					     __u32 share, __u32 at)
{
	if (share > conf->high - conf->low)
		return conf->low + at;
	return conf->low + 2 * at + ((device ^ at * 0x85ebca6bU) * 0x9e3779b1U >> 31);
}

/* Whether the pod may keep its own port. */
static __always_inline bool pc_snat_is_its(const struct pc_snat_conf *conf, __u32 device,
					   __u32 share, __be16 port)
{
	__u32 number = bpf_ntohs(port);

	return pc_snat_is_port(conf, port) &&
	       (share > conf->high - conf->low ||
		pc_snat_port_at(conf, device, share, (number - conf->low) / 2) == number);
}

/* The wire-side entry, with the first port that is free towards the remote end. Returns the port;
 * 0: all tried ports are taken. The pod's own port comes first, if it is in its share. A port of an
 * ended connection of the same pod comes last. SCTP can use only its own port, as its checksum
 * covers ports.
 */
static __always_inline __be16 pc_snat_port(const struct pc_flow *flow,
					   const struct pc_snat_conf *conf, struct pc_snat_key *key,
					   struct pc_snat_entry *end)
{
	__u32 share = pc_snat_share(conf, end->device);
	__u64 spread = pc_snat_spread(&flow->tuple);
	__u32 at = (__u32)spread % share, step = 1;
	bool is_sctp = flow->tuple.proto == IPPROTO_SCTP;

	if (share > PC_SNAT_TRIES) /* each port at most once */
		step += (__u32)(spread >> 32) % (share / PC_SNAT_TRIES);
	key->port = flow->tuple.sport;
	if ((is_sctp || pc_snat_is_its(conf, end->device, share, key->port)) &&
	    pc_snat_take(flow, false))
		return key->port;
	if (is_sctp)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 2 * PC_SNAT_TRIES; i++) {
		key->port = bpf_htons(pc_snat_port_at(conf, end->device, share, at));
		if (pc_snat_take(flow, i >= PC_SNAT_TRIES))
			return key->port;
		at += step;
		if (at >= share)
			at -= share;
	}
	return 0;
}

/* Stores the pod-side entry, and overwrites an existing one. */
static __always_inline bool pc_snat_put(const struct pc_flow *flow, const struct pc_snat_key *key,
					const struct pc_snat_entry *end)
{
	int stored = pc_snat_store(key, end, flow->now, flow->second);

	if (stored == PC_SNAT_FULL)
		pc_quota_count(end->device ? end->device : PC_OWNER_NODE, PC_QUOTA_SNAT);
	return stored == PC_SNAT_STORED ||
	       (stored == PC_SNAT_THERE &&
		!bpf_map_update_elem(&pc_snat_entries, key, end, BPF_EXIST));
}

/* Opens a connection, of the pod flow->src or of the node. The wire-side entry is written first and
 * deleted last.
 */
__noinline int pc_snat_open(struct pc_flow *flow, __u32 uplink)
{
	const struct pc_snat_conf *conf = pc_snat_now();
	const struct pc_addr6 *own;
	struct pc_snat_new *made;
	struct pc_snat_key *key;
	struct pc_snat_entry *end;

	made = pc_snat_new_here();
	if (!flow || !conf || !made)
		return PC_DROP_NOT_MASQUERADED;
	own = pc_snat_own(conf, flow->tuple.family, uplink);
	if (!own)
		return PC_DROP_NOT_MASQUERADED;
	__builtin_memset(made, 0, sizeof(*made));
	key = &made->key;
	end = &made->end;
	pc_snat_set_ends(key, flow, true);
	key->is_out = true;
	key->here = *own;
	end->addr = flow->tuple.saddr;
	end->port = flow->tuple.sport;
	end->state = pc_ct_news(flow, false);
	end->expires = flow->now + pc_snat_idle(flow, end->state);
	end->epoch = flow->epoch;
	end->device = flow->src.ifindex;
	end->uplink = uplink;
	end->id = bpf_get_prandom_u32();
	end->port = pc_snat_port(flow, conf, key, end);
	if (!end->port) {
		pc_quota_count(end->device ? end->device : PC_OWNER_NODE, PC_QUOTA_SNAT);
		return PC_DROP_NO_PORT;
	}
	key->here = flow->tuple.saddr;
	key->port = flow->tuple.sport;
	key->is_out = false;
	end->addr = *own;
	if (pc_snat_put(flow, key, end))
		return PC_PASS;
	key->here = *own;
	key->port = end->port;
	key->is_out = true;
	bpf_map_delete_elem(&pc_snat_entries, key);
	return PC_DROP_CT_FULL;
}

static __always_inline bool pc_snat_echo(struct __sk_buff *skb, const struct pc_flow *flow,
					 __be16 from, __be16 to)
{
	return !bpf_l4_csum_replace(skb, flow->packet.l4 + pc_l4_checksum_at(&flow->tuple), from,
				    to, sizeof(to)) &&
	       !bpf_skb_store_bytes(skb, flow->packet.l4 + PC_ECHO_ID_AT, &to, sizeof(to), 0);
}

/* Writes the entry's address and port into the packet, at one end: the source if it leaves. */
__noinline int pc_snat_write(struct __sk_buff *skb, struct pc_flow *flow,
			     const struct pc_snat_entry *to, enum pc_nat_end end)
{
	struct pc_addr6 was;
	__be16 port;
	bool done;

	if (!flow || !to)
		return PC_DROP_MALFORMED;
	was = end == PC_NAT_SRC ? flow->tuple.saddr : flow->tuple.daddr;
	port = end == PC_NAT_SRC ? flow->tuple.sport : flow->tuple.dport;
	if (port == to->port && pc_addr_eq(&was, &to->addr))
		return PC_PASS;
	flow->packet.csum_partial = pc_csum_partial_of(skb, flow);
	if (!pc_nat_addr(skb, flow, end, &was, &to->addr))
		return PC_DROP_MALFORMED;
	if (port == to->port)
		return PC_PASS;
	done = pc_is_icmp(&flow->tuple) ? pc_snat_echo(skb, flow, port, to->port)
					: pc_nat_port(skb, flow, end, port, to->port);
	return done ? PC_PASS : PC_DROP_MALFORMED;
}
