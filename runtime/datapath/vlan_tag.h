/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* vlan_tag.h - priority tags of frames at an uplink: VLAN 0. Gives pc_untag(),
 * pc_is_priority_tagged().
 */
#pragma once
#include "packet.h"
#include "flow.h"
#include <linux/if_ether.h>

#define PC_VLAN_ID 0x0fff

/* A tag of VLAN 0 has only a priority: the kernel takes such a frame as the device's own, with or
 * without 8021q. So this removes the tag first. Other tags belong to devices on top of this one, or
 * to none; the kernel would process a tag behind this one next.
 */
static __always_inline void pc_untag(struct __sk_buff *skb)
{
	if (skb->vlan_present && !(skb->vlan_tci & PC_VLAN_ID) &&
	    skb->protocol != bpf_htons(ETH_P_8021Q) && skb->protocol != bpf_htons(ETH_P_8021AD))
		bpf_skb_vlan_pop(skb);
}

/* Such a tag that is still there: in front of another tag, or inside the frame, from which the
 * kernel removes outer tags.
 */
__noinline int pc_is_priority_tagged(struct __sk_buff *skb, const struct pc_flow *flow)
{
	__be16 tag;

	if (skb->vlan_present)
		return !(skb->vlan_tci & PC_VLAN_ID);
	if (!flow ||
	    (flow->packet.ethertype != ETH_P_8021Q && flow->packet.ethertype != ETH_P_8021AD))
		return 0;
	return !pc_read(skb, ETH_HLEN, &tag, sizeof(tag)) || !(tag & bpf_htons(PC_VLAN_ID));
}
