/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ct_key.h - the one key under which both directions of a connection are found.
 * Needs a tuple. Gives struct pc_ct4_key, struct pc_ct6_key, pc_ct4_key_of(), pc_ct6_key_of().
 */
#pragma once
#include "flow.h"

struct pc_ct4_key {
	__be32 lo_addr, hi_addr; /* ends ordered by (address, port) */
	__be16 lo_port, hi_port;
	__u8 proto;
	__u8 sub;
	__u8 zero[2]; /* the map hashes these bytes too */
};
_Static_assert(sizeof(struct pc_ct4_key) == 16, "a map key has no hidden padding");

struct pc_ct6_key {
	struct pc_addr6 lo_addr, hi_addr;
	__be16 lo_port, hi_port;
	__u8 proto;
	__u8 sub;
	__u8 zero[2];
};
_Static_assert(sizeof(struct pc_ct6_key) == 40, "a map key has no hidden padding");

/* True when the tuple runs from hi to lo; equal ends count as lo to hi. Any fixed order works, so
 * addresses are compared in their memory representation.
 */
static __always_inline bool pc_runs_back(const struct pc_tuple *t)
{
	for (int i = 0; i < 4; i++)
		if (t->saddr.word[i] != t->daddr.word[i])
			return t->saddr.word[i] > t->daddr.word[i];
	return t->sport > t->dport;
}

static __always_inline bool pc_ct4_key_of(struct pc_ct4_key *key, const struct pc_tuple *t)
{
	bool back = pc_runs_back(t);

	*key = (struct pc_ct4_key){
	    .lo_addr = back ? t->daddr.word[0] : t->saddr.word[0],
	    .hi_addr = back ? t->saddr.word[0] : t->daddr.word[0],
	    .lo_port = back ? t->dport : t->sport,
	    .hi_port = back ? t->sport : t->dport,
	    .proto = t->proto,
	    .sub = t->sub,
	};
	return back;
}

static __always_inline bool pc_ct6_key_of(struct pc_ct6_key *key, const struct pc_tuple *t)
{
	bool back = pc_runs_back(t);

	*key = (struct pc_ct6_key){
	    .lo_addr = back ? t->daddr : t->saddr,
	    .hi_addr = back ? t->saddr : t->daddr,
	    .lo_port = back ? t->dport : t->sport,
	    .hi_port = back ? t->sport : t->dport,
	    .proto = t->proto,
	    .sub = t->sub,
	};
	return back;
}
