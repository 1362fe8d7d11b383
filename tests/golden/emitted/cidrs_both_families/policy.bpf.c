/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Generated from network policies: do not edit, compile them again.
 *
 * Rules, by id:
 *   0: allowed: no policy isolates the endpoint
 *   1: denied: the endpoint has no class on this node
 *   2: allow by shop/from-office spec.ingress[0] (policies.yaml:7:7)
 *   3: allow by shop/from-office spec.ingress[1] (policies.yaml:11:7)
 *   4: ingress denied by default: isolated by shop/from-office
 *
 * ingress: the pods that policies select, by row
 *   1: no policy selects it
 *   2: shop: all pods
 * ingress: those they talk to, by column
 *   1: anyone that no rule names
 *   2: 192.0.2.0/24 except 192.0.2.200/32, 192.0.2.64/26
 *   3: 192.0.2.64/28
 *   4: 2001:db8::/32 except 2001:db8:dead::/48
 * ingress: verdicts, row by row
 *   1, with 1-4: allowed by rule 0
 *   2, with 1: denied by rule 4
 *   2, with 2, 4: diagram 2.0
 *   2, with 3: allowed by rule 3
 *
 * Diagrams in pc_nodes, by their root
 *   2.0: allows TCP 443; decided by rules 2, 4
 */

#define PC_RULES 320
#define PC_COUNTED_WORDS 2 /* bytes */
#define PC_TOLD_APART 0x1 /* protocols whose ports are asked: TCP */
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
	__u32 root = 1;

	return pc_column_of(pc_search(&pc_nodes, root, a, 1));
}

static __always_inline __u32 pc_column6_in(const struct pc_addr6 *address)
{
	__u64 hi = pc_addr6_high(address);

	if (hi < 0x20010db8dead0000ULL /* 2001:db8:dead:: */) {
		if (hi < 0x20010db800000000ULL /* 2001:db8:: */) {
			return 1;
		}
		return 4;
	}
	if (hi < 0x20010db8deae0000ULL /* 2001:db8:deae:: */) {
		return 1;
	}
	if (hi < 0x20010db900000000ULL /* 2001:db9:: */) {
		return 4;
	}
	return 1;
}

/* Who may reach a pod of this node: 2 classes of pods, 4 of peers. */
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
