/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Zeroes the arrays that bpf(2) would take longest to: it has no call for all elements of one that
 * cannot be mapped (map_content.py).
 */
#include "ct_map.h"
#include "fragments.h"
#include "snat_fragments.h"
#include "snat_map.h"
#include "external_map.h"

#define WIPE(name, of)                                                                             \
	static long wipe_##name(void *map, __u32 *key, of *value, void *none)                      \
	{                                                                                          \
		(void)map, (void)key, (void)none;                                                  \
		*value = (of){};                                                                   \
		return 0;                                                                          \
	}

WIPE(pc_place4, struct pc_place4_at)
WIPE(pc_place6, struct pc_place6_at)
WIPE(pc_place4_new, struct pc_place4_new_at)
WIPE(pc_place6_new, struct pc_place6_new_at)
WIPE(pc_vteps, struct pc_vtep)
WIPE(pc_snat_place, struct pc_snat_place_at)
WIPE(pc_snat_frag_place, struct pc_snat_frag_place_at)
WIPE(pc_frag_place4, struct pc_frag_place4_at)
WIPE(pc_frag_place6, struct pc_frag_place6_at)

SEC("tc")
int wipe(struct __sk_buff *skb)
{
	(void)skb;
	bpf_for_each_map_elem(&pc_place4, wipe_pc_place4, 0, 0);
	bpf_for_each_map_elem(&pc_place6, wipe_pc_place6, 0, 0);
	bpf_for_each_map_elem(&pc_place4_new, wipe_pc_place4_new, 0, 0);
	bpf_for_each_map_elem(&pc_place6_new, wipe_pc_place6_new, 0, 0);
	bpf_for_each_map_elem(&pc_vteps, wipe_pc_vteps, 0, 0);
	bpf_for_each_map_elem(&pc_snat_place, wipe_pc_snat_place, 0, 0);
	bpf_for_each_map_elem(&pc_snat_frag_place, wipe_pc_snat_frag_place, 0, 0);
	bpf_for_each_map_elem(&pc_frag_place4, wipe_pc_frag_place4, 0, 0);
	bpf_for_each_map_elem(&pc_frag_place6, wipe_pc_frag_place6, 0, 0);
	return 0;
}

char pc_license[] SEC("license") = "Dual BSD/GPL";
