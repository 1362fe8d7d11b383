/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Asks which endpoint a packet to a Service would be given: k_pick takes queries one after the
 * other. Whoever the client is, by whatever hook it came.
 */
#include "service_pick.h"

#define QUERIES 65536

struct query {
	struct pc_tuple t;
	__u32 client;
	__u32 zero;
};
_Static_assert(sizeof(struct query) % 8 == 0, "so that one follows the other in the map");

struct answer {
	__u32 reason, row;
	struct pc_addr6 backend;
};

#define TABLE(name, size, of)                                                                      \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, size);                                                         \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__type(key, __u32);                                                                \
		__type(value, of);                                                                 \
	} name SEC(".maps")

TABLE(k_queries, QUERIES, struct query);
TABLE(k_answers, QUERIES, struct answer);
TABLE(k_at, 1, __u64);

SEC("tc")
int k_pick(struct __sk_buff *skb __attribute__((unused)))
{
	struct pc_flow *flow = pc_flow_scratch();
	struct answer *answer;
	struct query *query;
	__u32 zero = 0, at;
	__u64 *next;

	next = bpf_map_lookup_elem(&k_at, &zero);
	if (!next || !flow)
		return 1;
	at = (*next)++;
	query = bpf_map_lookup_elem(&k_queries, &at);
	answer = bpf_map_lookup_elem(&k_answers, &at);
	if (!query || !answer)
		return 1;
	__builtin_memset(flow, 0, sizeof(*flow));
	flow->tuple = query->t;
	flow->packet.is_opening = 1;
	flow->client = query->client;
	answer->reason = pc_service_pick(flow, pc_generation(flow));
	answer->row = flow->nat.backend;
	answer->backend = flow->tuple.daddr;
	return 0;
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
