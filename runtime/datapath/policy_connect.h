/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* policy_connect.h - refuses the connect() of a pod whose first packet the policy would deny.
 * Only in bundles that were compiled with --socket-programs; policy_run.h includes it. The hooks
 * run behind those of sockets.bpf.c, so they see the endpoint of a Service. A connect() that goes
 * on is decided by its packets: in doubt it goes on.
 */
#pragma once
#include "external_map.h"
#include "service_map.h"
#include "socket_client.h"
#include "socket_family.h"

#define PC_CONNECT_GO_ON   1
#define PC_CONNECT_REFUSED 0 /* EPERM, unless another error is set */

/* The epoch of the generation -> 1. Hooks of another generation refuse nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} pc_conn_epoch SEC(".maps");

/* Whether packets to the address leave the pod, and a policy decides them as any other. Not those
 * to a loopback, link-local or group address.
 */
static __always_inline bool pc_is_remote(const struct pc_addr6 *addr, __u8 family)
{
	__u32 first = bpf_ntohl(addr->word[0]);

	if (family == PC_IPV4)
		return first >> 24 && first >> 24 != 127 && first >> 24 < 224 &&
		       first >> 16 != 0xa9fe;
	return first >> 24 != 0xff && first >> 22 != 0xfe80 >> 6 && pc_addr6_high(addr);
}

/* Whether a Service may have the address and port: the hook at the pod's device translates it. */
static __always_inline bool pc_may_be_service(const struct pc_flow *flow, __u32 state)
{
	if (!(state & PC_STATE_SERVICES))
		return false;
	if (pc_node_at(flow->tuple.family, &flow->tuple.daddr))
		return true;
	return pc_frontend_of(&flow->tuple, state);
}

/* Fills the flow of the first packet. False if no pod connects, or its packets must decide: those
 * of a bound datagram socket may be answers.
 */
static __always_inline bool pc_connect_flow(struct bpf_sock_addr *ctx, struct pc_flow *flow,
					    __u8 family, const struct pc_addr6 *to)
{
	struct pc_socket_client client = {};
	__u32 state;

	if (!pc_socket_client_of(ctx, family, &client) || client.is_node ||
	    !pc_is_remote(to, family))
		return false;
	if (ctx->protocol != IPPROTO_TCP && (ctx->protocol != IPPROTO_UDP || ctx->sk->src_port))
		return false;
	state = pc_generation(flow);
	if (!bpf_map_lookup_elem(&pc_conn_epoch, &flow->epoch))
		return false;
	flow->tuple = (struct pc_tuple){
	    .saddr = client.addr,
	    .daddr = *to,
	    .dport = ctx->user_port,
	    .family = family,
	    .proto = ctx->protocol,
	};
	flow->packet.is_opening = true;
	if (pc_may_be_service(flow, state))
		return false;
	pc_endpoints_of(flow);
	return flow->src.ifindex && !(flow->dst.flags & PC_ENDPOINT_HOST);
}

static __always_inline void pc_connect_count(__u32 rule)
{
#if PC_COUNTED_WORDS
	struct pc_count *count;

	if (!PC_IS_COUNTED)
		return;
	count = bpf_map_lookup_elem(&pc_counts, &rule);
	if (count) /* packets may interrupt the process on this CPU */
		__sync_fetch_and_add(&count->packets, 1);
#endif
	(void)rule;
}

/* Of two ends the source is asked first; the decision has the rules of those that were asked. */
static __always_inline bool pc_connect_ends_deny(const struct pc_flow *flow,
						 struct pc_decision *decision)
{
	__u32 service = pc_service(flow);

	if (flow->src.id == flow->dst.id)
		return false;
	if (!pc_word_allows(pc_egress(flow, service), &decision->egress_rule))
		return true;
	return flow->dst.ifindex &&
	       !pc_word_allows(pc_ingress(flow, service), &decision->ingress_rule);
}

/* Whether the policy denies the flow; then it is counted and reported. One copy for both families.
 * Not global: 6.1 takes no field of a global function's argument as a map's key.
 */
static __noinline bool pc_connect_is_denied(struct pc_flow *flow)
{
	struct pc_decision decision = {};
	__u32 rule;

	if (!pc_connect_ends_deny(flow, &decision))
		return false;
	rule = decision.ingress_rule ? decision.ingress_rule : decision.egress_rule;
	pc_connect_count(rule);
	flow->action.reason = PC_DROP_POLICY;
	pc_tell(flow, &decision);
#ifdef PC_REJECTS
	if (PC_REJECTS && pc_effect_of(rule, PC_EFFECT_REJECT))
		bpf_set_retval(PC_REFUSED);
#endif
	return true;
}

static __always_inline int pc_connect(struct bpf_sock_addr *ctx, __u8 family,
				      const struct pc_addr6 *to)
{
	struct pc_flow flow = {};

	if (!pc_connect_flow(ctx, &flow, family, to) || !pc_connect_is_denied(&flow))
		return PC_CONNECT_GO_ON;
	return PC_CONNECT_REFUSED;
}

SEC("cgroup/connect4")
int pc_policy_conn4(struct bpf_sock_addr *ctx)
{
	struct pc_addr6 to = {{ctx->user_ip4}};

	return pc_connect(ctx, PC_IPV4, &to);
}

SEC("cgroup/connect6")
int pc_policy_conn6(struct bpf_sock_addr *ctx)
{
	bool mapped = pc_is_mapped(ctx);
	struct pc_addr6 to = {};

	pc_get6(ctx, mapped, &to);
	return pc_connect(ctx, mapped ? PC_IPV4 : PC_IPV6, &to);
}
