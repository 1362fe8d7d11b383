/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* snat_owner.h - which connection owns a SNAT entry, and how its port passes to another connection.
 * Gives pc_snat_is_except(), pc_snat_holds(), pc_snat_take().
 */
#pragma once
#include "endpoints.h"
#include "snat_store.h"

#define PC_SNAT_LOOKS 2   /* attempts per port, in case another CPU takes it meanwhile */
#define PC_SNAT_WAITS 512 /* reads of a state, while another CPU writes the entry */

/* Whether the address is a pod, a node, or excepted by the load. Separate for its stack frame. */
__noinline int pc_snat_is_except(__u32 family, const struct pc_addr6 *addr)
{
	struct pc_snat_net net = {};
	struct pc_endpoint ep = {};

	if (!addr)
		return false;
	pc_endpoint_at(family, addr, &ep);
	if (ep.id || ep.ifindex || pc_node_at(family, addr))
		return true;
	net.length = 8 * (sizeof(net) - sizeof(net.length));
	net.family = bpf_htonl(family);
	net.addr = *addr;
	return !!bpf_map_lookup_elem(&pc_snat_except, &net);
}

/* After a load: the address still belongs to the pod that opened the connection, and the
 * destination is not excepted now. Otherwise the entry has no owner.
 */
static __always_inline bool pc_snat_holds(const struct pc_flow *flow, struct pc_snat_entry *end,
					  const struct pc_addr6 *pod, const struct pc_addr6 *there)
{
	struct pc_endpoint ep = {};

	if (end->epoch == flow->epoch)
		return true;
	if (end->device) {
		pc_endpoint_at(flow->tuple.family, pod, &ep);
		if (ep.ifindex != end->device || pc_snat_is_except(flow->tuple.family, there))
			return false;
	}
	end->epoch = flow->epoch;
	return true;
}

/* Locks the entry: this CPU may change its owner until pc_snat_unlock(). It waits for another CPU
 * that has the lock; that CPU needs only a few instructions. Verified once, on its own.
 */
__noinline int pc_snat_lock(struct pc_snat_entry *there)
{
	__u32 state;

	if (!there)
		return false;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_SNAT_WAITS; i++) {
		state = *(volatile __u32 *)&there->state;
		if (!(state & PC_SNAT_TAKING) &&
		    __sync_val_compare_and_swap(&there->state, state, state | PC_SNAT_TAKING) ==
			state)
			return true;
	}
	return false;
}

static __always_inline void pc_snat_unlock(struct pc_snat_entry *there)
{
	__sync_fetch_and_and(&there->state, ~PC_SNAT_TAKING);
}

/* Overwrites an entry without an owner. A lookup on another CPU finds no connection before the
 * entry is complete: the time is cleared first, and set last. Atomic swaps are ordered on every
 * machine, plain writes are not.
 */
static __always_inline void pc_snat_become(struct pc_snat_entry *there,
					   const struct pc_snat_entry *end)
{
	__sync_lock_test_and_set(&there->expires, 0);
	there->addr = end->addr;
	there->port = end->port;
	there->device = end->device;
	there->uplink = end->uplink;
	there->id = end->id;
	__sync_lock_test_and_set(&there->epoch, end->epoch);
	__sync_lock_test_and_set(&there->state, end->state | PC_SNAT_TAKING);
	__sync_lock_test_and_set(&there->expires, end->expires);
}

/* The connection `end` takes over the port of an ended connection of the same pod, and its
 * reservation: the remote end may not know that it ended. The old pod-side entry is deleted. A
 * newer connection with the same tuple has another id, and stays.
 */
__noinline int pc_snat_inherit(const struct pc_snat_key *key, const struct pc_snat_entry *there,
			       struct pc_snat_entry *end)
{
	const struct pc_snat_entry *pods;
	struct pc_snat_key its;

	if (!key || !there || !end)
		return 0;
	if (!pc_snat_is_closed(there->state))
		end->state |= there->state & PC_SNAT_ESTABLISHED;
	if (there->expires > end->expires)
		end->expires = there->expires;
	its = *key;
	its.here = there->addr;
	its.port = there->port;
	its.is_out = false;
	pods = bpf_map_lookup_elem(&pc_snat_entries, &its);
	if (pods && pods->id == there->id)
		bpf_map_delete_elem(&pc_snat_entries, &its);
	return 0;
}

/* No packet passes by the entry any more. If its pod is gone, the port stays reserved as long as
 * after FINs in both directions: late packets for it must not reach another pod.
 */
static __always_inline bool pc_snat_is_free(const struct pc_flow *flow,
					    const struct pc_snat_key *key,
					    struct pc_snat_entry *there)
{
	__u64 rests = (__u64)PC_SNAT_RESTS * flow->second;

	if (there->expires <= flow->now)
		return true;
	return !pc_snat_holds(flow, there, &there->addr, &key->there) &&
	       there->expires + rests <= flow->now + pc_snat_idle(flow, there->state);
}

/* Whether the connection owns the locked entry afterwards. It does if the entry had no owner, or if
 * the same pod has it already, for the same source port. Then the other entry was evicted, or
 * another CPU is about to write it. `is_own`: also if the entry is of an ended connection of the
 * same pod.
 */
static __always_inline bool pc_snat_is_given(const struct pc_flow *flow,
					     const struct pc_snat_key *key,
					     struct pc_snat_entry *there, struct pc_snat_entry *end,
					     bool is_own)
{
	if (pc_snat_is_free(flow, key, there)) {
		pc_snat_become(there, end);
		return true;
	}
	if (there->device != end->device || !pc_addr_eq(&there->addr, &end->addr))
		return false;
	if (there->port != end->port) {
		if (!is_own || !pc_snat_is_over(flow, there))
			return false;
		pc_snat_inherit(key, there, end);
		pc_snat_become(there, end);
		return true;
	}
	there->epoch = end->epoch;
	there->uplink = end->uplink;
	end->id = there->id;
	end->state = there->state & ~PC_SNAT_TAKING;
	end->fin = there->fin;
	if (there->expires > end->expires)
		end->expires = there->expires;
	return true;
}

/* Takes the port for a new connection. Of two CPUs that want the port, one gets it, or both for the
 * same connection. So a wire-side entry is never deleted for another: of two CPUs that see it
 * expired, the second would delete the new entry of the first. Verified once, on its own.
 */
__noinline int pc_snat_take(const struct pc_flow *flow, __u32 is_own)
{
	struct pc_snat_new *made = pc_snat_new_here();
	const struct pc_snat_key *key;
	struct pc_snat_entry *there, *end;
	bool is_given;

	if (!flow || !made)
		return false;
	key = &made->key;
	end = &made->end;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PC_SNAT_LOOKS; i++) {
		there = bpf_map_lookup_elem(&pc_snat_entries, key);
		if (!there && pc_snat_store(key, end, flow->now, flow->second) == PC_SNAT_STORED)
			return true;
		if (!there || !pc_snat_lock(there))
			continue; /* another CPU was first: check the owner again */
		is_given = pc_snat_is_given(flow, key, there, end, is_own);
		pc_snat_unlock(there);
		return is_given;
	}
	return false;
}
