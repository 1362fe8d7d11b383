/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* bpf_iter.h - the kernel's context of an iteration over a map of socket storage.
 * The verifier knows the type of each pointer in it, so it would refuse another layout.
 */
#pragma once
#include "addr.h"

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};
