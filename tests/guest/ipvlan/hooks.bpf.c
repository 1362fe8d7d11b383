/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Programs that count what each hook sees, by hook and by port, and do with it what `todo` says. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Python reads these names from the BTF. */
enum hook {
	PARENT_OUT = 1,
	PARENT_IN,
	A_OUT,
	A_IN,
	B_OUT,
	B_IN,
	NODE_OUT,
	NODE_IN,
	WIRE_IN,
	TARGET,
	CG_A_OUT,
	CG_A_IN,
	CG_B_OUT,
	CG_B_IN,
};

enum action { PASS, DROP, BACK, OUT, PEER, FIB, MOVE, STAMP };

struct key {
	enum hook hook;
	__u32 tag; /* a port, or see tag_of() */
};

struct seen {
	__u64 packets, cgroup;
	__u32 ifindex, mark, gso_size, longest, stamp;
	__u8 smac[6], first, has_socket;
	__u8 source[4]; /* the first bytes of the last word of the source address */
};

struct todo {
	enum action action;
	__u32 argument;
};

struct routes {
	__u32 result, ifindex;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct key);
	__type(value, struct seen);
} seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct key);
	__type(value, struct todo);
} todo SEC(".maps");

/* What bpf_fib_lookup() said, by hook. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, enum hook);
	__type(value, struct routes);
} fib SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} jumps SEC(".maps");

/* The port, 1 for ARP, 1000 and the type for ICMP, or 0. */
static __always_inline __u32 tag_of(struct __sk_buff *skb, __u32 at, __u8 *source)
{
	__u16 ports[2];
	__u8 byte = 0, proto = 0;
	__u32 l4 = at + 20;

	if (skb->protocol == bpf_htons(ETH_P_ARP))
		return 1;
	if (bpf_skb_load_bytes(skb, at, &byte, 1))
		return 0;
	if (byte >> 4 == 4) {
		bpf_skb_load_bytes(skb, at + 9, &proto, 1);
		bpf_skb_load_bytes(skb, at + 12, source, 4);
	} else if (byte >> 4 == 6) {
		bpf_skb_load_bytes(skb, at + 6, &proto, 1);
		bpf_skb_load_bytes(skb, at + 20, source, 4);
		l4 = at + 40;
	} else {
		return 0;
	}
	if (proto != 6 && proto != 17) {
		bpf_skb_load_bytes(skb, l4, &byte, 1);
		return 1000 + byte;
	}
	if (bpf_skb_load_bytes(skb, l4, ports, sizeof(ports)))
		return 0;
	ports[0] = bpf_ntohs(ports[0]), ports[1] = bpf_ntohs(ports[1]);
	return ports[1] >= 20000 && ports[1] < 30000 ? ports[1] : ports[0];
}

static __always_inline struct todo *see(struct __sk_buff *skb, enum hook hook, __u32 at,
					struct key *key)
{
	struct seen *entry, fresh = {};
	__u8 source[4] = {};

	key->hook = hook;
	key->tag = tag_of(skb, at, source);
	entry = bpf_map_lookup_elem(&seen, key);
	if (!entry) {
		bpf_map_update_elem(&seen, key, &fresh, BPF_NOEXIST);
		entry = bpf_map_lookup_elem(&seen, key);
		if (!entry)
			return 0;
	}
	entry->packets++;
	entry->ifindex = skb->ifindex;
	entry->mark = skb->mark;
	if (skb->gso_size)
		entry->gso_size = skb->gso_size;
	if (skb->len > entry->longest)
		entry->longest = skb->len;
	entry->has_socket = skb->sk != 0;
	entry->stamp = skb->tc_index;
	bpf_skb_load_bytes(skb, at, &entry->first, 1);
	__builtin_memcpy(entry->source, source, 4);
	if (at)
		bpf_skb_load_bytes(skb, 6, entry->smac, 6);
	entry->cgroup = bpf_skb_cgroup_id(skb);
	return bpf_map_lookup_elem(&todo, key);
}

static __always_inline int look_up(struct __sk_buff *skb, enum hook hook)
{
	struct bpf_fib_lookup about = {.family = 2, .ifindex = skb->ifindex};
	struct routes said = {};

	bpf_skb_load_bytes(skb, 26, &about.ipv4_src, 4);
	bpf_skb_load_bytes(skb, 30, &about.ipv4_dst, 4);
	said.result = bpf_fib_lookup(skb, &about, sizeof(about), 0);
	said.ifindex = about.ifindex;
	bpf_map_update_elem(&fib, &hook, &said, 0);
	return TC_ACT_UNSPEC;
}

static __always_inline int at_tc(struct __sk_buff *skb, enum hook hook)
{
	struct key key;
	struct todo *what = see(skb, hook, ETH_HLEN, &key);

	if (!what)
		return TC_ACT_UNSPEC;
	switch (what->action) {
	case PASS:
		break;
	case DROP:
		return TC_ACT_SHOT;
	case BACK:
		return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
	case OUT:
		return bpf_redirect(what->argument, 0);
	case PEER:
		return bpf_redirect_peer(what->argument, 0);
	case FIB:
		return look_up(skb, hook);
	case STAMP:
		skb->tc_index = what->argument;
		return TC_ACT_UNSPEC;
	case MOVE:
		bpf_tail_call(skb, &jumps, 0);
		return TC_ACT_SHOT;
	}
	return TC_ACT_UNSPEC;
}

#define TC(name, hook)                                                                             \
	SEC("tc") int name(struct __sk_buff *skb)                                                  \
	{                                                                                          \
		return at_tc(skb, hook);                                                           \
	}
#define CG(name, hook, direction)                                                                  \
	SEC("cgroup_skb/" direction) int name(struct __sk_buff *skb)                               \
	{                                                                                          \
		struct key key;                                                                    \
		struct todo *what = see(skb, hook, 0, &key);                                       \
		return !(what && what->action == DROP);                                            \
	}

TC(parent_out, PARENT_OUT)
TC(parent_in, PARENT_IN)
TC(a_out, A_OUT)
TC(a_in, A_IN)
TC(b_out, B_OUT)
TC(b_in, B_IN)
TC(node_out, NODE_OUT)
TC(node_in, NODE_IN)
TC(wire_in, WIRE_IN)
TC(target, TARGET)
CG(cg_a_out, CG_A_OUT, "egress")
CG(cg_a_in, CG_A_IN, "ingress")
CG(cg_b_out, CG_B_OUT, "egress")
CG(cg_b_in, CG_B_IN, "ingress")

/* Refuses PACKET_QDISC_BYPASS. */
SEC("cgroup/setsockopt") int no_bypass(struct bpf_sockopt *of)
{
	return !(of->level == 263 && of->optname == 20);
}

char facts_license[] SEC("license") = "Dual BSD/GPL";
