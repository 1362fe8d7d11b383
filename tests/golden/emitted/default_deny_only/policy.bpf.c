/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Generated from network policies: do not edit, compile them again.
 *
 * Rules, by id:
 *   0: allowed: no policy isolates the endpoint
 *   1: denied: the endpoint has no class on this node
 *   2: ingress denied by default: isolated by shop/default-deny
 *   3: egress denied by default: isolated by shop/default-deny
 *
 * Rows (endpoint classes as subjects), by the selectors that hold:
 *   1: none
 *   2: shop: all pods
 */

#define PC_ROWS 67
#define PC_COLUMNS 133
#define PC_DIAGRAMS 1030
#define PC_STEPS 8198
#define PC_RULES 260
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
		 * ingress denied by default: isolated by shop/default-deny
		 * egress denied by default: isolated by shop/default-deny */
		return 0;
	}
	default:
		break;
	}
	return pc_table_leaf(diagram, service);
}

#include "policy_run.h"
