/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* xdp.bpf.c - the XDP program at uplinks. It runs before the kernel allocates an skb. Known
 * connections between external clients and endpoints of other nodes pass here. All others go on to
 * tc, which does the same for these connections, and decides.
 */
#include "xdp_unwrap.h"
#include "xdp_wrap.h"

SEC("xdp")
int pc_xdp_from(struct xdp_md *ctx)
{
	const struct pc_xdp_uplink *here = pc_xdp_at(ctx->ingress_ifindex);
	struct pc_xdp_frame frame = {};
	struct pc_flow flow = {};

	if (!here || !pc_xdp_parse((void *)(long)ctx->data, (void *)(long)ctx->data_end, here->mac,
				   &flow, &frame))
		return XDP_PASS;
	return pc_xdp_is_tunnelled(&flow) ? pc_xdp_reply(ctx, here, &flow, &frame)
					  : pc_xdp_request(ctx, here, &flow, &frame);
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
