/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* hairpin_addr.h - the address that a pod sees when it reaches itself through a Service.
 * Gives pc_hairpin_address(), pc_is_hairpin(), pc_is_hairpin_reply().
 *
 * IPv4: 169.254.255.1, one of the link-local addresses that no host may choose itself (RFC 3927,
 * 2.1), and of no link here. IPv6: fd70:6353:6870::1, a unique local address (RFC 4193): for a
 * link-local one the pod would send a neighbour solicitation, and not use its gateway.
 */
#pragma once
#include "ct_state.h"

#define PC_HAIRPIN4      0xa9feff01
#define PC_HAIRPIN6_HIGH 0xfd70635368700000ULL
#define PC_HAIRPIN6_LOW  1

static __always_inline void pc_hairpin_address(struct pc_addr6 *a, __u8 family)
{
	if (family == PC_IPV4) {
		*a = (struct pc_addr6){.word = {bpf_htonl(PC_HAIRPIN4)}};
		return;
	}
	a->word[0] = bpf_htonl(PC_HAIRPIN6_HIGH >> 32);
	a->word[1] = bpf_htonl((__u32)PC_HAIRPIN6_HIGH);
	a->word[2] = 0;
	a->word[3] = bpf_htonl(PC_HAIRPIN6_LOW);
}

static __always_inline bool pc_is_hairpin(const struct pc_addr6 *a, __u8 family)
{
	if (family == PC_IPV4)
		return a->word[0] == bpf_htonl(PC_HAIRPIN4);
	return pc_addr6_high(a) == PC_HAIRPIN6_HIGH && pc_addr6_low(a) == PC_HAIRPIN6_LOW;
}

/* Whether this hook translates a reply packet of the connection to a reply of the Service. */
static __always_inline bool pc_is_hairpin_reply(const struct pc_ct *ct, const struct pc_tuple *t)
{
	return ct->state & PC_CT_NAT && pc_is_hairpin(&t->daddr, t->family);
}
