#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The table of this package from a guest, in about five minutes, after `make install`:
# tests/guest/ipvlan/facts.sh SERIES
set -euo pipefail
series=${1:?usage: facts.sh SERIES}
cd "$(dirname "$0")/../../.."
sources=tests/guest/ipvlan objects=build/guest/facts
rm -rf "$objects"
mkdir -p "$objects"
build() { # OBJECT SOURCE FLAGS...
	clang -O2 -g -Wall -Wextra -Werror -target bpf -idirafter "/usr/include/$(uname -m)-linux-gnu" "${@:3}" \
		-c "$sources/$2" -o "$objects/$1"
}
build hooks.o hooks.bpf.c
for type in tc cgroup_skb/egress cgroup_skb/ingress; do
	while read -r name call; do
		build "call-$name@${type/\//_}.o" call.bpf.c "-DTYPE=\"$type\"" "-DCALL=$call"
	done <<-"END"
		bpf_skb_load_bytes bpf_skb_load_bytes(skb, 0, &word, 4)
		bpf_skb_store_bytes bpf_skb_store_bytes(skb, 0, &word, 4, 0)
		bpf_redirect return bpf_redirect(1, 0)
		bpf_redirect_peer return bpf_redirect_peer(1, 0)
		bpf_redirect_neigh return bpf_redirect_neigh(1, 0, 0, 0)
		bpf_fib_lookup bpf_fib_lookup(skb, &about, sizeof(about), 0)
		bpf_tail_call bpf_tail_call(skb, &jumps, 0)
		bpf_get_netns_cookie bpf_get_netns_cookie(skb)
		bpf_skb_cgroup_id bpf_skb_cgroup_id(skb)
		bpf_get_socket_cookie bpf_get_socket_cookie(skb)
		write_mark skb->mark = 1
		write_tc_index skb->tc_index = 1
	END
done
modprobe="modprobe -d build/guest/$series/kernel"
GUEST_SECONDS=${GUEST_SECONDS:-1200} tests/guest/run.sh "$series" bash -c "
	for each in ipvlan macvlan cls_matchall act_gact act_pedit act_csum sch_prio; do
		$modprobe \$each || echo no module \$each
	done
	.venv/bin/python -m tests.guest.ipvlan $objects"
