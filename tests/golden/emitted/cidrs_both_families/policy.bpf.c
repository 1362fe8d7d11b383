/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Generated from network policies: do not edit, compile them again.
 *
 * Rules, by id:
 *   0: allowed: no policy isolates the endpoint
 *   1: denied: the endpoint has no class on this node
 *   2: allow by shop/from-office spec.ingress[0] (policies.yaml:7:7)
 *   3: allow by shop/from-office spec.ingress[1] (policies.yaml:11:7)
 *   4: ingress denied by default: isolated by shop/from-office
 *
 * Rows (endpoint classes as subjects), by the selectors that hold:
 *   1: none
 *   2: shop: all pods
 */

#define PC_ROWS 67
#define PC_COLUMNS 136
#define PC_DIAGRAMS 1032
#define PC_STEPS 8204
#define PC_RULES 261
#define PC_ENDPOINTS 65536
#define PC_STEP_ROUNDS 8
#define PC_CIDR4_ENTRIES 0
#define PC_CIDR6_ENTRIES 0

#include "policy_maps.h"

static __always_inline __u32 pc_column4(__be32 address)
{
	__u32 a = bpf_ntohl(address);

	if (a < 0xc0000280 /* 192.0.2.128 */) {
		if (a < 0xc0000240 /* 192.0.2.64 */) {
			if (a < 0xc0000200 /* 192.0.2.0 */) {
				return 1;
			}
			return 2;
		}
		if (a < 0xc0000250 /* 192.0.2.80 */) {
			return 3;
		}
		return 1;
	}
	if (a < 0xc00002c9 /* 192.0.2.201 */) {
		if (a < 0xc00002c8 /* 192.0.2.200 */) {
			return 2;
		}
		return 1;
	}
	if (a < 0xc0000300 /* 192.0.3.0 */) {
		return 2;
	}
	return 1;
}

static __always_inline __u32 pc_column6(const struct pc_addr6 *address)
{
	__u64 hi = pc_addr6_high(address);

	if (hi < 0x20010db8dead0000ULL /* 2001:db8:dead:: */) {
		if (hi < 0x20010db800000000ULL /* 2001:db8:: */) {
			return 4;
		}
		return 5;
	}
	if (hi < 0x20010db8deae0000ULL /* 2001:db8:deae:: */) {
		return 4;
	}
	if (hi < 0x20010db900000000ULL /* 2001:db9:: */) {
		return 5;
	}
	return 4;
}

static __always_inline __u32 pc_action(__u32 diagram, __u32 service)
{
	switch (diagram) {
	case 2: {
		/* allows any service
		 * allowed: no policy isolates the endpoint
		 * allow by shop/from-office spec.ingress[1] (policies.yaml:11:7) */
		return 1;
	}
	case 3: {
		/* allows nothing
		 * ingress denied by default: isolated by shop/from-office */
		return 0;
	}
	case 6: {
		/* allows TCP 443
		 * allow by shop/from-office spec.ingress[0] (policies.yaml:7:7)
		 * ingress denied by default: isolated by shop/from-office */
		if (service < 0x001bb /* TCP 443 */) {
			return 0;
		}
		if (service < 0x001bc /* TCP 444 */) {
			return 1;
		}
		return 0;
	}
	default:
		break;
	}
	return pc_table_leaf(diagram, service);
}

#include "policy_run.h"
