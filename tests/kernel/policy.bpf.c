/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A policy program as the compiler would emit it, with nothing specialised: all goes by tables. */
#define PC_ROWS 16
#define PC_COLUMNS 16
#define PC_DIAGRAMS 128
#define PC_STEPS 512
#define PC_RULES 16
#define PC_ENDPOINTS 16
#define PC_STEP_ROUNDS 6
#define PC_CIDR4_ENTRIES 8
#define PC_CIDR6_ENTRIES 8

#include "policy_maps.h"

static __always_inline __u32 pc_column4(__be32 address)
{
	return pc_cidr4_column(address);
}

static __always_inline __u32 pc_column6(const struct pc_addr6 *address)
{
	return pc_cidr6_column(address);
}

static __always_inline __u32 pc_action(__u32 diagram, __u32 service)
{
	return pc_table_leaf(diagram, service);
}

#include "policy_run.h"
