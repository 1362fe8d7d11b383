/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* way_back.h - how a client outside is answered that came to another node than the endpoint's.
 * Gives pc_answers_leave_here().
 */
#pragma once
#include "outside_map.h"
#include "service_map.h"

/* By the endpoint's node; else they go back by the one that the client came to. The Service says
 * it, in the endpoint's row, or else the load. NULL: nobody knows the Service any more.
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
