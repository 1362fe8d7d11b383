/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* return_path.h - the return path to an external client that came to a node without the endpoint.
 * Gives pc_is_dsr().
 */
#pragma once
#include "external_map.h"
#include "service_map.h"

/* True: the endpoint's node replies directly; otherwise by the node that the client came to. The
 * backend has the Service's choice, or else the load. NULL: the Service is gone.
 */
static __always_inline bool pc_is_dsr(const struct pc_backend *backend)
{
	__u8 said = backend ? backend->state & (PC_BACKEND_TUNNEL | PC_BACKEND_DSR) : 0;
	const struct pc_external *external;

	if (said)
		return said == PC_BACKEND_DSR;
	external = pc_external_now();
	return external && external->return_path == PC_BACK_DSR;
}
