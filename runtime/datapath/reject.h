/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* reject.h - whether a refused packet is answered, how often, and which way the answer goes.
 * Gives pc_reject() and pc_is_answer().
 */
#pragma once
#include "answer.h"
#include "ct_front.h"
#include "effects.h"
#include "fragments.h"
#include "nat.h"

/* Answers of one CPU: more would make a reflector of the node, or keep it from its work. */
#define PC_ANSWER_EVERY 1000000 /* nanoseconds: 1000 a second, and 250 at once */
#define PC_ANSWER_SLACK (249 * PC_ANSWER_EVERY)

/* On an answer that the host is to route, for the moment that it takes to reach the pod's hook. No
 * pod can set it: a mark does not outlive the way between two network namespaces.
 */
#define PC_ANSWER_MARK 0x70635221

#define PC_PACKET_HOST    0
#define PC_ICMP_REDIRECT  5
#define PC_ICMP_QUENCH    4
#define PC_ICMP6_FIRST_OK 128 /* below are errors */

struct pc_answers {
	__u64 due; /* of pc_is_within() */
	__u64 sent, withheld;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_answers);
} pc_answers SEC(".maps");

static __always_inline bool pc_is_sent_by_pod(const struct __sk_buff *skb,
					      const struct pc_flow *flow)
{
	return (flow->is_reply ? flow->dst.ifindex : flow->src.ifindex) == skb->ifindex;
}

/* An answer of our own on its way through the host. */
static __always_inline bool pc_is_answer(const struct __sk_buff *skb, const struct pc_flow *flow)
{
	return skb->mark == PC_ANSWER_MARK && pc_is_sent_by_pod(skb, flow);
}

/* One host, that could have sent or could be spoken for: none of 0/8, 127/8, 224/3, ::, ::1,
 * ff00::/8. */
static __always_inline bool pc_is_host(const struct pc_addr6 *a, __u8 family)
{
	__u8 first = bpf_ntohl(a->word[0]) >> 24;

	if (family == PC_IPV4)
		return first && first != 127 && first < 224;
	return first != 0xff &&
	       !(!a->word[0] && !a->word[1] && !a->word[2] && bpf_ntohl(a->word[3]) <= 1);
}

/* RFC 1122, 3.2.2 and RFC 4443, 2.4 (e): no error about an error, about what went to many or came
 * from nobody. Later fragments do not come here.
 */
static __always_inline bool pc_may_be_answered(struct __sk_buff *skb, const struct pc_flow *flow)
{
	__u8 type = flow->icmp >> 8, mac = 1;

	if (flow->t.proto == IPPROTO_TCP && (flow->tcp_flags & PC_TCP_RST || flow->fragment))
		return false;               /* before it takes an answer from others */
	if (flow->frag_row & PC_FRAG_REPLY) /* translated for the client: nobody sent this */
		return false;
	if (!pc_is_host(&flow->t.saddr, flow->t.family) ||
	    !pc_is_host(&flow->t.daddr, flow->t.family) || bpf_skb_load_bytes(skb, 0, &mac, 1) ||
	    mac & 1)
		return false;
	if (!pc_is_icmp(&flow->t))
		return true;
	if (flow->t.family == PC_IPV6)
		return type >= PC_ICMP6_FIRST_OK;
	return !pc_is_icmp_error(flow) && type != PC_ICMP_REDIRECT && type != PC_ICMP_QUENCH;
}

/* A pod's own packet comes back to it at once. What was sent to a pod is answered as if by the pod:
 * through the host, which may have to translate addresses back. A client outside that is refused
 * where it comes in is answered there, from the Service.
 */
static __always_inline int pc_send_back(struct __sk_buff *skb, const struct pc_flow *flow)
{
	if (pc_is_sent_by_pod(skb, flow)) {
		bpf_skb_change_type(skb, PC_PACKET_HOST);
		return bpf_redirect_peer(skb->ifindex, 0);
	}
	if (skb->ingress_ifindex == skb->ifindex)
		return bpf_redirect_neigh(skb->ifindex, 0, 0, 0); /* refused at the uplink */
	skb->mark = PC_ANSWER_MARK;
	return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}

/* A packet to a Service is answered as it was sent. */
static __always_inline bool pc_untranslate(struct __sk_buff *skb, struct pc_flow *flow)
{
	if (!flow->nat.row)
		return true;
	if (!pc_nat_addr(skb, flow, PC_NAT_DST, &flow->t.daddr, &flow->nat.daddr) ||
	    !pc_nat_port(skb, flow, PC_NAT_DST, flow->t.dport, flow->nat.dport) ||
	    !pc_nat_port(skb, flow, PC_NAT_SRC, flow->t.sport, flow->nat.sport))
		return false;
	pc_tuple_front(&flow->t, &flow->nat);
	return true;
}

/* A SYN against a connection of the other direction (RFC 9293, 3.10.7.4: no reset). The answer
 * would be taken for that connection's, and end its entry.
 */
static __always_inline bool pc_meets_another(const struct pc_flow *flow)
{
	struct pc_ct_at at;

	if (flow->t.proto != IPPROTO_TCP || flow->entry != PC_ENTRY_INSERT)
		return false;
	at = pc_ct_get(&flow->t, true);
	return at.ct && at.ct->expires > flow->now && at.ct->back != at.back;
}

/* What the hook returns for a packet that a rule refuses: `dropped` where there is no answer. */
static __always_inline int pc_reject(struct __sk_buff *skb, struct pc_flow *flow, int dropped)
{
	__u32 zero = 0;
	struct pc_answers *answers = bpf_map_lookup_elem(&pc_answers, &zero);

	if (!answers || !pc_may_be_answered(skb, flow) || pc_meets_another(flow))
		return dropped;
	if (!pc_is_within(&answers->due, bpf_ktime_get_ns(), PC_ANSWER_EVERY, PC_ANSWER_SLACK)) {
		answers->withheld += 1;
		return dropped;
	}
	if (!pc_untranslate(skb, flow) || !pc_answer(skb, flow))
		return dropped;
	answers->sent += 1;
	return pc_send_back(skb, flow);
}
