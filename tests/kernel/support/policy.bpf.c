/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A policy program as the compiler would emit it, with nothing specialised: all goes by tables. */
#define PC_ROWS          16
#define PC_COLUMNS       16
#define PC_NODES         512
#define PC_RULES         16
#define PC_ENDPOINTS     16
#define PC_ROUNDS        3
#define PC_COUNTED_WORDS 2

#include "policy_words.h"
#include "service_key.h"

struct pc_class {
	__u32 row, column4, column6, zero;
};

PC_TABLE(pc_class, PC_ENDPOINTS, struct pc_class);
PC_TABLE(pc_nodes, PC_NODES, struct pc_node);
PC_TABLE(pc_cells_in, PC_ROWS *PC_COLUMNS, __u32);
PC_TABLE(pc_cells_eg, PC_ROWS *PC_COLUMNS, __u32);
PC_TRIE(pc_cidr4, 8, struct pc_cidr4_key);
PC_TRIE(pc_cidr6, 8, struct pc_cidr6_key);

static __always_inline __u32 column_of(const struct pc_endpoint *peer,
				       const struct pc_addr6 *address, __u8 family)
{
	struct pc_cidr4_key key4 = {.length = 32, .address = address->word[0]};
	struct pc_cidr6_key key6 = {.length = 128, .address = *address};
	struct pc_class *class;
	__u32 *column;

	if (peer->id) {
		class = bpf_map_lookup_elem(&pc_class, &peer->id);
		if (!class)
			return 0;
		return family == PC_IPV4 ? class->column4 : class->column6;
	}
	column = family == PC_IPV4 ? bpf_map_lookup_elem(&pc_cidr4, &key4)
				   : bpf_map_lookup_elem(&pc_cidr6, &key6);
	return column ? *column : 0;
}

static __always_inline __u32 word_of(void *cells, const struct pc_flow *flow,
				     const struct pc_endpoint *own, const struct pc_endpoint *peer,
				     const struct pc_addr6 *address, __u32 service)
{
	__u32 column = column_of(peer, address, flow->tuple.family);
	struct pc_class *class = bpf_map_lookup_elem(&pc_class, &own->id);

	if (!class)
		return PC_NOTHING;
	return pc_search(&pc_nodes, pc_dense(cells, PC_ROWS, PC_COLUMNS, class->row, column),
			 service, PC_ROUNDS);
}

static __always_inline __u32 pc_egress(const struct pc_flow *flow, __u32 service)
{
	return word_of(&pc_cells_eg, flow, &flow->src, &flow->dst, &flow->tuple.daddr, service);
}

static __always_inline __u32 pc_ingress(const struct pc_flow *flow, __u32 service)
{
	return word_of(&pc_cells_in, flow, &flow->dst, &flow->src, &flow->tuple.saddr, service);
}

#include "policy_run.h"
