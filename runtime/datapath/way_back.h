/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* way_back.h - the return path to an external client that came to a node without the endpoint.
 * Gives pc_answers_leave_here().
 */
#pragma once
#include "outside_map.h"
#include "service_map.h"

/* True: the endpoint's node answers directly; otherwise by the node that the client came to. The
 * row has the Service's choice, or else the load. NULL: the Service is gone.
 */
static __always_inline bool pc_answers_leave_here(const struct pc_row *row)
{
	__u8 said = row ? row->state & (PC_ROW_TUNNEL | PC_ROW_DSR) : 0;
	const struct pc_outside *outside;

	if (said)
		return said == PC_ROW_DSR;
	outside = pc_outside_now();
	return outside && outside->way_back == PC_BACK_DSR;
}
