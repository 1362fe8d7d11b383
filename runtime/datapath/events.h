/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* events.h - reports what happened to a first packet that a rule logs, to the reader of events.
 * Gives pc_log(). A packet never waits for a reader: without room its event is lost, and counted.
 */
#pragma once
#include "effects.h"
#include "pace.h"
#include "quota.h"

#define PC_EVENT_BYTES 262144 /* of unread events */

/* The rate limit of one CPU: a flood must not keep the node busy with events. */
#define PC_EVENT_EVERY 1000000 /* nanoseconds: 1000 a second, bursts of 1000 */
#define PC_EVENT_SLACK (999ULL * PC_EVENT_EVERY)

/* A pod may use a quarter of these, and all external clients together half of them. */
#define PC_EVENT_PACES 4096
#define PC_EVENT_SHARE(owner)                                                                      \
	((owner) <= PC_OWNER_NODE ? 2ULL * PC_EVENT_EVERY : 4ULL * PC_EVENT_EVERY)

#define PC_EVENT_EGRESS  1 /* the source's policy was evaluated, and egress_rule decided */
#define PC_EVENT_INGRESS 2 /* likewise the destination's; not if egress denies */
#define PC_EVENT_AGAIN   4 /* of a connection that another policy had allowed */
#define PC_EVENT_REPLY                                                                             \
	8 /* by a packet of the other direction; the event is in that of the flow                  \
	   */
#define PC_EVENT_SERVICE 16 /* daddr and dport are the endpoint's; `service` is the Service's */

/* pc_event.reason is zero if the packet passed, otherwise an enum drop_reason. */
struct pc_event {
	__u64 time; /* monotonic clock, nanoseconds */
	__u32 epoch;
	__u32 egress_rule, ingress_rule;
	__u32 src, dst; /* ids of endpoints, 0: no endpoint */
	struct pc_addr6 saddr, daddr, service;
	__be16 sport, dport, service_port;
	__u16 icmp; /* type << 8 | code */
	__u8 family, proto, reason, flags;
};
_Static_assert(sizeof(struct pc_event) == 88, "hidden padding would show the kernel's memory");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PC_EVENT_BYTES);
} pc_events SEC(".maps");

struct pc_event_count {
	__u64 due; /* for pc_is_within() */
	__u64 written;
	__u64 withheld; /* above the rate limit */
	__u64 lost;     /* without room in the ring buffer */
	/* A ring buffer has no BTF types. This names the type of its records, for their reader. */
	struct pc_event record[0];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pc_event_count);
} pc_event_count SEC(".maps");

/* When the next event of the device, or of external clients, is due. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PC_EVENT_PACES);
	__type(key, __u32);
	__type(value, __u64);
} pc_event_paces SEC(".maps");

/* Whether the owner may have one more event now. */
static __always_inline bool pc_event_is_due(__u32 owner, __u64 now)
{
	__u64 every = PC_EVENT_SHARE(owner), first = now + every, *due;

	due = bpf_map_lookup_elem(&pc_event_paces, &owner);
	if (!due)
		return !bpf_map_update_elem(&pc_event_paces, &owner, &first, BPF_NOEXIST);
	return pc_is_within(due, now, every, PC_EVENT_SLACK);
}

static __always_inline __u8 pc_event_flags(const struct pc_flow *flow, bool denied_by_egress)
{
	__u8 flags = 0;

	if (flow->src.ifindex)
		flags |= PC_EVENT_EGRESS;
	if (flow->dst.ifindex && !denied_by_egress)
		flags |= PC_EVENT_INGRESS;
	if (flow->action.entry_op == PC_ENTRY_RENEW)
		flags |= PC_EVENT_AGAIN;
	if (flow->is_reply)
		flags |= PC_EVENT_REPLY;
	if (flow->nat.backend)
		flags |= PC_EVENT_SERVICE;
	return flags;
}

/* Writes one event if the deciding rule asks for it, or a log rule that matched before it. */
static __always_inline void pc_log(const struct pc_flow *flow, __u32 egress_rule,
				   __u32 ingress_rule, bool allowed)
{
	__u32 zero = 0;
	struct pc_event_count *count;
	struct pc_event *event;
	__u64 now;

	if (!pc_effect_of(egress_rule, PC_EFFECT_LOG) && !pc_effect_of(ingress_rule, PC_EFFECT_LOG))
		return;
	count = bpf_map_lookup_elem(&pc_event_count, &zero);
	if (!count)
		return;
	now = bpf_ktime_get_ns();
	if (!pc_event_is_due(flow->src.ifindex, now)) {
		count->withheld += 1;
		pc_quota_count(flow->src.ifindex, PC_QUOTA_EVENTS);
		return;
	}
	if (!pc_is_within(&count->due, now, PC_EVENT_EVERY, PC_EVENT_SLACK)) {
		count->withheld += 1;
		return;
	}
	event = bpf_ringbuf_reserve(&pc_events, sizeof(*event), 0);
	if (!event) {
		count->lost += 1;
		return;
	}
	count->written += 1;
	event->time = now;
	event->epoch = flow->epoch;
	event->egress_rule = egress_rule;
	event->ingress_rule = ingress_rule;
	event->src = flow->src.id;
	event->dst = flow->dst.id;
	event->saddr = flow->tuple.saddr;
	event->daddr = flow->tuple.daddr;
	event->service = flow->nat.daddr;
	event->sport = flow->tuple.sport;
	event->dport = flow->tuple.dport;
	event->service_port = flow->nat.dport;
	event->icmp = flow->packet.icmp;
	event->family = flow->tuple.family;
	event->proto = flow->tuple.proto;
	event->reason = flow->action.reason;
	event->flags = pc_event_flags(flow, !allowed && !ingress_rule);
	bpf_ringbuf_submit(event, 0);
}
