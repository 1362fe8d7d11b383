/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Asks who has an address. p_find takes queries one after the other, p_watch always the first, and
 * counts the answers that differ from the one that was given for it.
 */
#include "endpoints.h"

#define QUERIES 131072

struct query {
	struct pc_addr6 address;
	__u32 family;
	__u32 zero;
};

struct progress {
	__u64 at, wrong;
};

#define TABLE(name, size, of)                                                                      \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, size);                                                         \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__type(key, __u32);                                                                \
		__type(value, of);                                                                 \
	} name SEC(".maps")

TABLE(p_queries, QUERIES, struct query);
TABLE(p_answers, QUERIES, struct pc_endpoint);
TABLE(p_progress, 1, struct progress);

SEC("tc")
int p_find(struct __sk_buff *skb)
{
	struct progress *progress;
	struct pc_endpoint *answer;
	struct query *query;
	__u32 zero = 0, at;

	(void)skb;
	progress = bpf_map_lookup_elem(&p_progress, &zero);
	if (!progress)
		return 1;
	at = progress->at++;
	query = bpf_map_lookup_elem(&p_queries, &at);
	answer = bpf_map_lookup_elem(&p_answers, &at);
	if (!query || !answer)
		return 1;
	return pc_endpoint_at(query->family, &query->address, answer);
}

SEC("tc")
int p_watch(struct __sk_buff *skb)
{
	struct pc_endpoint *expected, found = {};
	struct progress *progress;
	struct query *query;
	__u32 zero = 0;

	(void)skb;
	progress = bpf_map_lookup_elem(&p_progress, &zero);
	query = bpf_map_lookup_elem(&p_queries, &zero);
	expected = bpf_map_lookup_elem(&p_answers, &zero);
	if (!progress || !query || !expected)
		return 1;
	pc_endpoint_at(query->family, &query->address, &found);
	progress->at++;
	if (found.id != expected->id || found.ifindex != expected->ifindex ||
	    !pc_mac_eq(found.mac, expected->mac))
		progress->wrong++;
	return 0;
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
