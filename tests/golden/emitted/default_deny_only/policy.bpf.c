/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Generated from network policies: do not edit, compile them again.
 *
 * Rules, by id:
 *   0: allowed: no policy isolates the endpoint
 *   1: denied: the endpoint has no class on this node
 *   2: ingress denied by default: isolated by shop/default-deny
 *   3: egress denied by default: isolated by shop/default-deny
 *
 * ingress: the pods that policies select, by row
 *   1: no policy selects it
 *   2: shop: all pods
 * ingress: those they talk to, by column
 *   1: anyone that no rule names
 * ingress: verdicts, row by row
 *   1, with 1: allowed by rule 0
 *   2, with 1: denied by rule 2
 *
 * egress: the pods that policies select, by row
 *   1: no policy selects it
 *   2: shop: all pods
 * egress: those they talk to, by column
 *   1: anyone that no rule names
 * egress: verdicts, row by row
 *   1, with 1: allowed by rule 0
 *   2, with 1: denied by rule 3
 */

#define PC_RULES 320
#define PC_COUNTED_WORDS 2 /* bytes */
#define PC_TOLD_APART 0x0 /* protocols whose ports are asked: none */
#include "policy_words.h"
#include "service.h"

/* What the tables know of a pod or node: its row as subject, its column as peer. */
struct pc_class {
	__u32 ingress_row;
	__u32 ingress_column;
	__u32 egress_row;
	__u32 egress_column;
};

PC_TABLE(pc_class, 65536, struct pc_class);
PC_TABLE(pc_nodes, 1152, struct pc_node);
PC_TABLE(pc_cells_in, 24576, __u32);
PC_TABLE(pc_cells_eg, 24576, __u32);

static __always_inline const struct pc_class *pc_class_at(__u32 id)
{
	return bpf_map_lookup_elem(&pc_class, &id);
}

/* The verdict on a service: the word itself, or what its diagram says. */
static __always_inline __u32 pc_verdict_of(__u32 word, __u32 service)
{
	if (word & PC_LEAF)
		return word;
	return pc_search_service(&pc_nodes, word, service, 3);
}

/* Whom a pod of this node may reach: 2 classes of pods, 1 of peers. */
static __always_inline __u32 pc_egress(const struct pc_flow *flow, __u32 service)
{
	const struct pc_class *own = pc_class_at(flow->src.id), *peer;
	__u32 column, word;

	if (!own)
		return PC_NOTHING;
	if (flow->dst.id) {
		peer = pc_class_at(flow->dst.id);
		if (!peer)
			return PC_NOTHING;
		column = peer->egress_column;
	} else {
		column = 1; /* no policy names addresses */
	}
	word = pc_dense(&pc_cells_eg, 128, 192, own->egress_row, column);
	return pc_verdict_of(word, service);
}

/* Who may reach a pod of this node: 2 classes of pods, 1 of peers. */
static __always_inline __u32 pc_ingress(const struct pc_flow *flow, __u32 service)
{
	const struct pc_class *own = pc_class_at(flow->dst.id), *peer;
	__u32 column, word;

	if (!own)
		return PC_NOTHING;
	if (flow->src.id) {
		peer = pc_class_at(flow->src.id);
		if (!peer)
			return PC_NOTHING;
		column = peer->ingress_column;
	} else {
		column = 1; /* no policy names addresses */
	}
	word = pc_dense(&pc_cells_in, 128, 192, own->ingress_row, column);
	return pc_verdict_of(word, service);
}

#include "policy_run.h"
