/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* answerable.h - which rejected packets are answered, how often, and how the answer reaches the
 * pod. Gives pc_may_be_answered(), pc_answer_due(), pc_return(), pc_return_external(),
 * pc_is_answer().
 */
#pragma once
#include "answer.h"
#include "device.h"
#include "fragments.h"
#include "pace.h"
#include <linux/if_packet.h>

/* The mark of an answer that the host routes. The answer has it until it reaches the pod's hook, or
 * the uplink's hook if the node itself is the receiver. A pod may be able to set this mark. So the
 * answer also has a source MAC that no pod knows.
 */
#define PC_ANSWER_MARK 0x70635221

#define PC_ICMP_REDIRECT  5
#define PC_ICMP_QUENCH    4
#define PC_ICMP6_FIRST_OK 128 /* types below are errors */

/* The rate limit of one CPU. More answers would make the node a reflector, or keep it busy. */
#define PC_ANSWER_EVERY 1000000 /* nanoseconds: 1000 a second, bursts of 250 */
#define PC_ANSWER_SLACK (249 * PC_ANSWER_EVERY)

struct pc_answers {
	__u64 due; /* for pc_is_within() */
	__u64 sent, withheld;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_answers);
} pc_answers SEC(".maps");

/* The source MAC of such an answer. It is random, and each load draws a new one. */
struct pc_answer_mac {
	__u8 mac[PC_MAC_LEN];
	__u16 is_set;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_answer_mac);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_answer_mac SEC(".maps");

/* RFC 1122, 3.2.2 and RFC 4443, 2.4 (e): no error answers an error, a packet to a group address, or
 * a packet without a source. Later fragments do not reach this function.
 */
static __always_inline bool pc_may_be_answered(struct __sk_buff *skb, const struct pc_flow *flow)
{
	__u8 type = flow->packet.icmp >> 8, mac = 1;

	if (flow->tuple.proto == IPPROTO_TCP &&
	    (flow->packet.tcp_flags & PC_TCP_RST || flow->packet.fragment))
		return false; /* here, so that it uses none of the rate limit */
	/* Translated for the client: an error would quote a packet that no end has sent. */
	if (flow->action.frag_backend & PC_FRAG_REPLY && flow->tuple.proto != IPPROTO_TCP)
		return false;
	if (!pc_is_host(&flow->tuple.saddr, flow->tuple.family) ||
	    !pc_is_host(&flow->tuple.daddr, flow->tuple.family) ||
	    bpf_skb_load_bytes(skb, 0, &mac, 1) || mac & 1)
		return false;
	if (!pc_is_icmp(&flow->tuple))
		return true;
	if (flow->tuple.family == PC_IPV6)
		return type >= PC_ICMP6_FIRST_OK;
	return !pc_is_icmp_error(flow) && type != PC_ICMP_REDIRECT && type != PC_ICMP_QUENCH;
}

/* NULL: the rate limit is reached. Otherwise the caller counts one answer as sent.
 */
static __always_inline struct pc_answers *pc_answer_due(void)
{
	__u32 zero = 0;
	struct pc_answers *answers = bpf_map_lookup_elem(&pc_answers, &zero);

	if (!answers)
		return 0;
	if (pc_is_within(&answers->due, bpf_ktime_get_ns(), PC_ANSWER_EVERY, PC_ANSWER_SLACK))
		return answers;
	answers->withheld += 1;
	return 0;
}

/* Returns the frame, which a pod sent, to that pod. */
static __always_inline int pc_return(struct __sk_buff *skb, const struct pc_flow *flow)
{
	bpf_skb_change_type(skb, PACKET_HOST);
	if (pc_is_at_slave(flow)) {
		skb->tc_index = PC_STAMP_ANSWER;
		return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
	}
	return bpf_redirect_peer(skb->ifindex, 0);
}

/* Returns the frame, which came in by an uplink, to the neighbour that sent it: a bridge port has
 * no routes to find that neighbour. A frame that another node forwarded has the MACs of the tunnel.
 */
static __always_inline int pc_return_external(struct __sk_buff *skb, const struct pc_flow *flow)
{
	if (flow->client == PC_CLIENT_EXTERNAL)
		return bpf_redirect(skb->ifindex, 0);
	return bpf_redirect_neigh(skb->ifindex, 0, 0, 0);
}

/* The same for an answer that the host routes as if it came in here: the hook's return value. A
 * slave sends it.
 */
static __always_inline int pc_return_routed(struct __sk_buff *skb, const struct pc_flow *flow)
{
	__u32 zero = 0;
	const struct pc_answer_mac *own = bpf_map_lookup_elem(&pc_answer_mac, &zero);

	if (!own || !own->is_set || !pc_put(skb, PC_MAC_LEN, own->mac, PC_MAC_LEN))
		return TC_ACT_SHOT;
	skb->mark = PC_ANSWER_MARK;
	return bpf_redirect(skb->ifindex, pc_is_at_slave(flow) ? 0 : BPF_F_INGRESS);
}

/* Whether a packet with the mark of an answer is one. The verifier checks this function once. */
__noinline int pc_is_answer(struct __sk_buff *skb)
{
	__u32 zero = 0;
	const struct pc_answer_mac *own = bpf_map_lookup_elem(&pc_answer_mac, &zero);
	__u8 mac[PC_MAC_LEN] = {};
	__u8 differs = 0;

	if (!own || !own->is_set || !pc_read(skb, PC_MAC_LEN, mac, PC_MAC_LEN))
		return false;
	for (int i = 0; i < PC_MAC_LEN; i++)
		differs |= mac[i] ^ own->mac[i];
	return !differs;
}
