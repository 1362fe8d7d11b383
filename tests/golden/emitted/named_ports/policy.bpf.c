/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Generated from network policies: do not edit, compile them again.
 *
 * Rules, by id:
 *   0: allowed: no policy isolates the endpoint
 *   1: denied: the endpoint has no class on this node
 *   2: allow by shop/metrics spec.ingress[0] (policies.yaml:7:13)
 *   3: allow by shop/metrics spec.egress[0] (policies.yaml:8:12)
 *   4: ingress denied by default: isolated by shop/metrics
 *   5: egress denied by default: isolated by shop/metrics
 *
 * ingress: the pods that policies select, by row
 *   1: no policy selects it
 *   2: shop: all pods; metrics = 9100
 *   3: shop: all pods; metrics = 9200
 * ingress: those they talk to, by column
 *   1: anyone that no rule names
 * ingress: verdicts, row by row
 *   1, with 1: allowed by rule 0
 *   2, with 1: diagram 1.0
 *   3, with 1: diagram 1.1
 *
 * egress: the pods that policies select, by row
 *   1: no policy selects it
 *   2: shop: all pods
 * egress: those they talk to, by column
 *   1: anyone that no rule names
 *   2: *: all pods; metrics = 9100
 *   3: *: all pods; metrics = 9200
 * egress: verdicts, row by row
 *   1, with 1-3: allowed by rule 0
 *   2, with 1: denied by rule 5
 *   2, with 2: diagram 1.2
 *   2, with 3: diagram 1.3
 *
 * Diagrams in pc_nodes, by their root
 *   1.0: allows TCP 9100; decided by rules 2, 4
 *   1.1: allows TCP 9200; decided by rules 2, 4
 *   1.2: allows TCP 9100; decided by rules 3, 5
 *   1.3: allows TCP 9200; decided by rules 3, 5
 */

#define PC_RULES 320
#define PC_COUNTED_WORDS 2 /* bytes */
#define PC_TOLD_APART 0x1 /* protocols whose ports are asked: TCP */
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

/* Whom a pod of this node may reach: 2 classes of pods, 3 of peers. */
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

/* Who may reach a pod of this node: 3 classes of pods, 1 of peers. */
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
