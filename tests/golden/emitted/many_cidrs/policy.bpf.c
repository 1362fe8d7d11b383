/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Generated from network policies: do not edit, compile them again.
 *
 * Rules, by id:
 *   0: allowed: no policy isolates the endpoint
 *   1: denied: the endpoint has no class on this node
 *   2: allow by shop/feeds spec.ingress[0] (policies.yaml:8:7)
 *   3: ingress denied by default: isolated by shop/feeds
 *
 * Rows (endpoint classes as subjects), by the selectors that hold:
 *   1: none
 *   2: shop: all pods
 */

#define PC_ROWS 67
#define PC_COLUMNS 174
#define PC_DIAGRAMS 1030
#define PC_STEPS 8198
#define PC_RULES 260
#define PC_ENDPOINTS 65536
#define PC_STEP_ROUNDS 8
#define PC_CIDR4_ENTRIES 43
#define PC_CIDR6_ENTRIES 0

#include "policy_maps.h"

static __always_inline __u32 pc_column4(__be32 address)
{
	return pc_cidr4_column(address);
}

static __always_inline __u32 pc_column6(const struct pc_addr6 *address)
{
	(void)address; /* one column for all */
	return 43;
}

static __always_inline __u32 pc_action(__u32 diagram, __u32 service)
{
	switch (diagram) {
	case 2: {
		/* allows any service
		 * allowed: no policy isolates the endpoint
		 * allow by shop/feeds spec.ingress[0] (policies.yaml:8:7) */
		return 1;
	}
	case 3: {
		/* allows nothing
		 * ingress denied by default: isolated by shop/feeds */
		return 0;
	}
	default:
		break;
	}
	return pc_table_leaf(diagram, service);
}

#include "policy_run.h"
