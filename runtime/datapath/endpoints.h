/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* endpoints.h - finds pods by address and by device.
 * Gives pc_endpoint_at(), pc_endpoints_of(), pc_has_address(). The loader writes these maps; hooks
 * only read. Why double-buffered tables, not hash maps: docs/decisions/0020-pods-in-two-halves.md
 */
#pragma once
#include "flow.h"

#define PC_EP4_LINES      16384 /* per buffer: 65,536 addresses leave half of the entries free */
#define PC_EP6_LINES      32768 /* per buffer: 65,536 addresses leave a third free */
#define PC_EP_NETWORKS    65536 /* bits per buffer */
#define PC_LOCALS         4096  /* per buffer */
#define PC_DEVICE_ENTRIES 4096

/* The owner of an address: 0 means that no endpoint has it. */
#define PC_WHO_ID    0x3ffff /* the endpoint's id; for a pod of this node, its number in pc_ep */
#define PC_WHO_NODE  0x40000
#define PC_WHO_LOCAL 0x80000
#define PC_WHO_SALT  20       /* from this bit on, in the first entry of a line */
#define PC_WHO_MORE  0x100000 /* in the second entry: other addresses are in their second line */

/* Odd, and without a pattern. The first is 2^64 over the golden ratio: it spreads neighbours
 * evenly. */
#define PC_EP_SPREAD 0x9e3779b97f4a7c15ULL
#define PC_EP_STIR   0xc2b2ae3d27d4eb4fULL

/* Addresses, then owners. The salt gives the entry in which an address is, if it is in the line. */
struct pc_ep4_line {
	__u64 slot[8];
};
_Static_assert(sizeof(struct pc_ep4_line) == 64, "a line is a cache line");

struct pc_ep6_line {
	__u64 high[3], low[3];
	__u32 who[3];
	__u32 more; /* as PC_WHO_MORE */
};
_Static_assert(sizeof(struct pc_ep6_line) == 64, "a line is a cache line");

/* Each map is one value, so that finding a line takes only a mask of the index. */
struct pc_ep4_buffers {
	struct pc_ep4_line line[2 * PC_EP4_LINES];
};

struct pc_ep6_buffers {
	struct pc_ep6_line line[2 * PC_EP6_LINES];
};

/* The active state: one word, stored once, and read once per lookup. Bit 0 names the active buffer,
 * and the other bits its layout. Then the networks that have any endpoint, and the pods of this
 * node, whose verdicts need more than an id.
 */
struct pc_ep_state {
	__u64 word;
	__u64 zero[7];
	__u64 network[2 * PC_EP_NETWORKS / 64];
	struct pc_endpoint local[2 * PC_LOCALS];
};

#define PC_EP_SHIFT4(word) ((word) >> 8 & 63)
#define PC_EP_SHIFT6(word) ((word) >> 16 & 63)
#define PC_EP_SEED(word)   ((word) >> 32)

#define PC_EP_MAP(name, of)                                                                        \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, 1);                                                            \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__type(key, __u32);                                                                \
		__type(value, of);                                                                 \
		__uint(pinning, LIBBPF_PIN_BY_NAME);                                               \
	} name SEC(".maps")

PC_EP_MAP(pc_ep, struct pc_ep_state);
PC_EP_MAP(pc_ep4, struct pc_ep4_buffers);
PC_EP_MAP(pc_ep6, struct pc_ep6_buffers);

/* ifindex of the host-side veth -> the pod behind it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_DEVICE_ENTRIES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct pc_endpoint);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pc_if SEC(".maps");

/* Whether any endpoint has an address in this /24 or /64, or in one that shares its bit. Unknown
 * addresses cost 8 KiB of bitmap, and bring no lines of the tables into the caches.
 */
static __always_inline bool pc_ep_is_settled(const struct pc_ep_state *state, __u64 word,
					     __u64 network)
{
	__u64 bit = network * PC_EP_SPREAD >> 48;
	__u64 at = (word & 1) * (PC_EP_NETWORKS / 64) + (bit >> 6);

	/* The 6.1 verifier loses the bounds after `or`, and compilers drop the mask. */
	barrier_var(at);
	return state->network[at & (2 * PC_EP_NETWORKS / 64 - 1)] >> (bit & 63) & 1;
}

/* The only entry of its line where the address can be. */
static __always_inline __u64 pc_ep4_slot(const struct pc_ep4_line *line, __u64 address)
{
	__u32 salt = (__u32)line->slot[0] >> PC_WHO_SALT;
	__u64 mixed = address * PC_EP_SPREAD;

	return line->slot[((mixed >> (salt & 63)) + (address >> (salt >> 6))) & 7];
}

/* The owner of an IPv4 address. Eight consecutive addresses share their first line. The lookup
 * reads the second line only where the first one says that addresses are there.
 */
static __always_inline __u32 pc_who4(__u64 word, __u64 address)
{
	__u64 mixed = address * PC_EP_SPREAD ^ PC_EP_SEED(word);
	__u64 spread = (address >> 3) * PC_EP_SPREAD;
	const struct pc_ep4_line *line;
	const struct pc_ep4_buffers *all;
	__u32 zero = 0;
	__u64 slot;

	all = bpf_map_lookup_elem(&pc_ep4, &zero);
	if (!all)
		return 0;
#pragma nounroll
	for (int i = 0; i < 2; i++) {
		spread = (word & 1) * PC_EP4_LINES + (spread >> PC_EP_SHIFT4(word));
		line = &all->line[spread & (2 * PC_EP4_LINES - 1)];
		slot = pc_ep4_slot(line, address);
		if (slot >> 32 == address)
			return slot;
		if (!(line->slot[1] & PC_WHO_MORE))
			return 0;
		spread = (mixed ^ mixed >> 32) * PC_EP_STIR;
	}
	return 0;
}

/* Without a branch: with unpredictable keys one branch costs more than all three comparisons. */
static __always_inline __u32 pc_in_line6(const struct pc_ep6_line *line, __u64 high, __u64 low)
{
	__u32 who = 0;
	__u64 differ;

#pragma unroll
	for (int i = 0; i < 3; i++) {
		differ = (line->high[i] ^ high) | (line->low[i] ^ low);
		differ |= -differ;
		barrier_var(differ); /* or compilers make a branch of it */
		who |= line->who[i] & (__u32)((differ >> 63) - 1);
	}
	return who;
}

/* The owner of an IPv6 address. The whole address selects its lines. */
static __always_inline __u32 pc_who6(__u64 word, __u64 high, __u64 low)
{
	__u64 mixed = (high ^ PC_EP_SEED(word)) * PC_EP_STIR;
	const struct pc_ep6_line *line;
	const struct pc_ep6_buffers *all;
	__u32 zero = 0, who;
	__u64 at;

	all = bpf_map_lookup_elem(&pc_ep6, &zero);
	if (!all)
		return 0;
	mixed = (mixed ^ mixed >> 32 ^ low) * PC_EP_SPREAD;
#pragma nounroll
	for (int i = 0; i < 2; i++) {
		at = (word & 1) * PC_EP6_LINES + (mixed >> PC_EP_SHIFT6(word));
		line = &all->line[at & (2 * PC_EP6_LINES - 1)];
		who = pc_in_line6(line, high, low);
		if (who || !line->more)
			return who;
		mixed = (mixed ^ mixed >> 32) * PC_EP_STIR;
	}
	return 0;
}

static __always_inline __u32 pc_who(const struct pc_ep_state *state, __u64 word, __u32 family,
				    const struct pc_addr6 *addr)
{
	__u64 high, address;

	if (family == PC_IPV4) {
		address = bpf_ntohl(addr->word[0]);
		return pc_ep_is_settled(state, word, address >> 8) ? pc_who4(word, address) : 0;
	}
	high = pc_addr6_high(addr);
	return pc_ep_is_settled(state, word, high) ? pc_who6(word, high, pc_addr6_low(addr)) : 0;
}

/* Fills *ep with the pod or node that has the address; id 0 where none has it. The verifier checks
 * this function once, not at each call.
 */
__noinline int pc_endpoint_at(__u32 family, const struct pc_addr6 *addr, struct pc_endpoint *ep)
{
	const struct pc_ep_state *state;
	__u32 zero = 0, who, at;
	__u64 word;

	state = bpf_map_lookup_elem(&pc_ep, &zero);
	if (!state || !addr || !ep)
		return 0;
	word = *(const volatile __u64 *)&state->word;
	who = pc_who(state, word, family, addr);
	*ep = (struct pc_endpoint){
	    .id = who & (PC_WHO_ID | PC_WHO_LOCAL), /* without its record it would have no class */
	    .flags = who & PC_WHO_NODE ? PC_ENDPOINT_NODE : 0,
	};
	at = (word & 1) * PC_LOCALS + (who & PC_WHO_ID);
	if (who & PC_WHO_LOCAL && at < 2 * PC_LOCALS)
		*ep = state->local[at];
	return 0;
}

/* Fills the flow's two ends; an end that is no pod is zero. */
static __always_inline void pc_endpoints_of(struct pc_flow *flow)
{
	pc_endpoint_at(flow->tuple.family, &flow->tuple.saddr, &flow->src);
	pc_endpoint_at(flow->tuple.family, &flow->tuple.daddr, &flow->dst);
}

/* Whether the pod behind the device has the address. */
__noinline int pc_has_address(__u32 ifindex, __u32 family, const struct pc_addr6 *addr)
{
	struct pc_endpoint ep = {};

	if (!addr)
		return false;
	pc_endpoint_at(family, addr, &ep);
	return ep.ifindex == ifindex;
}
