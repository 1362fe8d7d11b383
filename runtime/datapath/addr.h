/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* addr.h - addresses, as the tables and the connections hold them.
 * Gives struct pc_addr6 and predicates on it. IPv4 is in word[0], and the other words are zero.
 */
#pragma once
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PC_IPV4    4
#define PC_IPV6    6
#define PC_MAC_LEN 6

struct pc_addr6 {
	__be32 word[4];
};
_Static_assert(sizeof(struct pc_addr6) == 16, "an address is what the wire carries");

static __always_inline bool pc_addr_eq(const struct pc_addr6 *a, const struct pc_addr6 *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2] &&
	       a->word[3] == b->word[3];
}

static __always_inline bool pc_addr_is_zero(const struct pc_addr6 *a)
{
	return !(a->word[0] | a->word[1] | a->word[2] | a->word[3]);
}

/* The two 64-bit halves of an address, as numbers in host order. Decision trees compare these. */
static __always_inline __u64 pc_addr6_high(const struct pc_addr6 *a)
{
	return (__u64)bpf_ntohl(a->word[0]) << 32 | bpf_ntohl(a->word[1]);
}

static __always_inline __u64 pc_addr6_low(const struct pc_addr6 *a)
{
	return (__u64)bpf_ntohl(a->word[2]) << 32 | bpf_ntohl(a->word[3]);
}

/* Link-local, fe80::/10: such an address never leaves its link. */
static __always_inline bool pc_addr_is_link_local(const struct pc_addr6 *a)
{
	return (a->word[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

static __always_inline bool pc_addr6_is_group(const struct pc_addr6 *a)
{
	return (a->word[0] & bpf_htonl(0xff000000)) == bpf_htonl(0xff000000);
}

/* Loopback, 127/8 and ::1: no link carries such an address. */
static __always_inline bool pc_addr_is_loopback(__u8 family, const struct pc_addr6 *a)
{
	if (family == PC_IPV4)
		return (a->word[0] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
	return !(a->word[0] | a->word[1] | a->word[2]) && a->word[3] == bpf_htonl(1);
}

/* A link-scope multicast group (RFC 4291, 2.7): routers do not forward to it either. */
static __always_inline bool pc_addr_is_link_group(const struct pc_addr6 *a)
{
	return (a->word[0] & bpf_htonl(0xff0f0000)) == bpf_htonl(0xff020000);
}

/* The address of one host, which can send and be answered: not 0/8, 127/8, 224/3, ::, ::1 or
 * ff00::/8. */
static __always_inline bool pc_is_host(const struct pc_addr6 *a, __u8 family)
{
	__u8 first = bpf_ntohl(a->word[0]) >> 24;

	if (family == PC_IPV4)
		return first && first != 127 && first < 224;
	return first != 0xff &&
	       !(!a->word[0] && !a->word[1] && !a->word[2] && bpf_ntohl(a->word[3]) <= 1);
}

static __always_inline bool pc_mac_eq(const __u8 *a, const __u8 *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3] && a[4] == b[4] &&
	       a[5] == b[5];
}
