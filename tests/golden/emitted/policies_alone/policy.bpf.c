/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Generated from network policies: do not edit, compile them again.
 *
 * Rules, by id:
 *   0: allowed: no policy isolates the endpoint
 *   1: denied: the endpoint has no class on this node
 *   2: allow by shop/gateway spec.egress[0] (policies.yaml:22:7)
 *   3: allow by shop/gateway spec.egress[1] (policies.yaml:23:7)
 *   4: allow by shop/web spec.ingress[0] (policies.yaml:9:7)
 *   5: ingress denied by default: isolated by shop/web
 *   6: egress denied by default: isolated by shop/gateway
 *
 * Rows (endpoint classes as subjects), by the selectors that hold:
 *   1: none
 *   2: shop: app=gateway
 *   3: shop: app=web
 */

#define PC_ROWS 68
#define PC_COLUMNS 137
#define PC_DIAGRAMS 1034
#define PC_STEPS 8218
#define PC_RULES 263
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
		 * allowed: no policy isolates the endpoint
		 * allow by shop/gateway spec.egress[0] (policies.yaml:22:7) */
		return 1;
	}
	case 3: {
		/* allows nothing
		 * ingress denied by default: isolated by shop/web */
		return 0;
	}
	case 5: {
		/* allows TCP 8080, TCP 9000-9010
		 * allow by shop/web spec.ingress[0] (policies.yaml:9:7)
		 * ingress denied by default: isolated by shop/web */
		if (service < 0x01f91 /* TCP 8081 */) {
			if (service < 0x01f90 /* TCP 8080 */) {
				return 0;
			}
			return 1;
		}
		if (service < 0x02328 /* TCP 9000 */) {
			return 0;
		}
		if (service < 0x02333 /* TCP 9011 */) {
			return 1;
		}
		return 0;
	}
	case 7: {
		/* allows TCP 53, UDP 53
		 * allow by shop/gateway spec.egress[1] (policies.yaml:23:7)
		 * egress denied by default: isolated by shop/gateway */
		if (service < 0x00036 /* TCP 54 */) {
			if (service < 0x00035 /* TCP 53 */) {
				return 0;
			}
			return 1;
		}
		if (service < 0x10035 /* UDP 53 */) {
			return 0;
		}
		if (service < 0x10036 /* UDP 54 */) {
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
