/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Generated from network policies: do not edit, compile them again.
 *
 * Rules, by id:
 *   0: allowed: no policy isolates the endpoint
 *   1: denied: the endpoint has no class on this node
 *   2: allow by shop/metrics spec.ingress[0] (policies.yaml:7:13)
 *   3: allow by shop/metrics spec.egress[0] (policies.yaml:8:12)
 *   4: ingress denied by default: isolated by shop/metrics
 *   5: egress denied by default: isolated by shop/metrics
 *
 * Rows (endpoint classes as subjects), by the selectors that hold:
 *   1: none
 *   2: shop: all pods
 *   3: shop: all pods
 */

#define PC_ROWS 68
#define PC_COLUMNS 135
#define PC_DIAGRAMS 1035
#define PC_STEPS 8215
#define PC_RULES 262
#define PC_ENDPOINTS 65536
#define PC_STEP_ROUNDS 8
#define PC_CIDR4_ENTRIES 0
#define PC_CIDR6_ENTRIES 0

#include "policy_maps.h"

static __always_inline __u32 pc_column4(__be32 address)
{
	(void)address; /* one column for all */
	return 1;
}

static __always_inline __u32 pc_column6(const struct pc_addr6 *address)
{
	(void)address; /* one column for all */
	return 2;
}

static __always_inline __u32 pc_action(__u32 diagram, __u32 service)
{
	switch (diagram) {
	case 2: {
		/* allows any service
		 * allowed: no policy isolates the endpoint */
		return 1;
	}
	case 3: {
		/* allows nothing
		 * egress denied by default: isolated by shop/metrics */
		return 0;
	}
	case 4: {
		/* allows TCP 9100
		 * allow by shop/metrics spec.ingress[0] (policies.yaml:7:13)
		 * allow by shop/metrics spec.egress[0] (policies.yaml:8:12)
		 * ingress denied by default: isolated by shop/metrics
		 * egress denied by default: isolated by shop/metrics */
		if (service < 0x0238c /* TCP 9100 */) {
			return 0;
		}
		if (service < 0x0238d /* TCP 9101 */) {
			return 1;
		}
		return 0;
	}
	case 6: {
		/* allows TCP 9200
		 * allow by shop/metrics spec.ingress[0] (policies.yaml:7:13)
		 * allow by shop/metrics spec.egress[0] (policies.yaml:8:12)
		 * ingress denied by default: isolated by shop/metrics
		 * egress denied by default: isolated by shop/metrics */
		if (service < 0x023f0 /* TCP 9200 */) {
			return 0;
		}
		if (service < 0x023f1 /* TCP 9201 */) {
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
