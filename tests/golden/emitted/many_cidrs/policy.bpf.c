/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Generated from network policies: do not edit, compile them again.
 *
 * Rules, by id:
 *   0: allowed: no policy isolates the endpoint
 *   1: denied: the endpoint has no class on this node
 *   2: allow by shop/feeds spec.ingress[0] (policies.yaml:8:7)
 *   3: ingress denied by default: isolated by shop/feeds
 *
 * ingress: the pods that policies select, by row
 *   1: no policy selects it
 *   2: shop: all pods
 * ingress: those they talk to, by column
 *   1: anyone that no rule names
 *   2: 198.51.0.0/24
 *   3: 198.51.2.0/24
 *   4: 198.51.4.0/24
 *   5: 198.51.6.0/24
 *   6: 198.51.8.0/24
 *   7: 198.51.10.0/24
 *   8: 198.51.12.0/24
 *   9: 198.51.14.0/24
 *   10: 198.51.16.0/24
 *   11: 198.51.18.0/24
 *   12: 198.51.20.0/24
 *   13: 198.51.22.0/24
 *   14: 198.51.24.0/24
 *   15: 198.51.26.0/24
 *   16: 198.51.28.0/24
 *   17: 198.51.30.0/24
 *   18: 198.51.32.0/24
 *   19: 198.51.34.0/24
 *   20: 198.51.36.0/24
 *   21: 198.51.38.0/24
 *   22: 198.51.40.0/24
 *   23: 198.51.42.0/24
 *   24: 198.51.44.0/24
 *   25: 198.51.46.0/24
 *   26: 198.51.48.0/24
 *   27: 198.51.50.0/24
 *   28: 198.51.52.0/24
 *   29: 198.51.54.0/24
 *   30: 198.51.56.0/24
 *   31: 198.51.58.0/24
 *   32: 198.51.60.0/24
 *   33: 198.51.62.0/24
 *   34: 198.51.64.0/24
 *   35: 198.51.66.0/24
 *   36: 198.51.68.0/24
 *   37: 198.51.70.0/24
 *   38: 198.51.72.0/24
 *   39: 198.51.74.0/24
 *   40: 198.51.76.0/24
 *   41: 198.51.78.0/24
 *   42: 203.0.113.0/24 except 203.0.113.128/25
 * ingress: verdicts, row by row
 *   1, with 1-42: allowed by rule 0
 *   2, with 1: denied by rule 3
 *   2, with 2-42: allowed by rule 2
 */

#define PC_RULES 320
#define PC_COUNTED_WORDS 2 /* bytes */
#define PC_TOLD_APART 0x0 /* protocols whose ports are asked: none */
#include "policy_words.h"
#include "service.h"

/* What the tables know of a pod or node: its row as subject, its column as peer. */
struct pc_class {
	__u32 ingress_row;
	__u32 ingress_column4;
	__u32 ingress_column6;
	__u32 zero[1];
};

PC_TABLE(pc_class, 65536, struct pc_class);
PC_TABLE(pc_nodes, 1152, struct pc_node);
PC_TABLE(pc_cells_in, 24576, __u32);
PC_TABLE(pc_root4_in, 65536, __u32);

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

/* Whom a pod of this node may reach: no policy says anything. */
static __always_inline __u32 pc_egress(const struct pc_flow *flow, __u32 service)
{
	(void)flow;
	(void)service;
	return PC_ALLOWED(PC_RULE_NOT_ISOLATED);
}

static __always_inline __u32 pc_column4_in(__be32 address)
{
	__u32 a = bpf_ntohl(address);
	__u32 word = pc_word_at(&pc_root4_in, a >> 16);

	return pc_column_of(pc_search_fan(&pc_nodes, word, a & 0xffff, 1));
}

static __always_inline __u32 pc_column6_in(const struct pc_addr6 *address)
{
	(void)address; /* one column for all */
	return 1;
}

/* Who may reach a pod of this node: 2 classes of pods, 42 of peers. */
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
		column = flow->t.family == PC_IPV4 ? peer->ingress_column4 : peer->ingress_column6;
	} else {
		column = flow->t.family == PC_IPV4
			     ? pc_column4_in(flow->t.saddr.word[0])
			     : pc_column6_in(&flow->t.saddr);
	}
	word = pc_dense(&pc_cells_in, 128, 192, own->ingress_row, column);
	return pc_verdict_of(word, service);
}

#include "policy_run.h"
