#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What runs in the guest: the command that run.sh was given, on the guest's kernel.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 TERM=dumb COLUMNS=120 PYTHONDONTWRITEBYTECODE=1
out=/run/out
cd "$1" || exit 3
mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm
# Nothing loads modules for us: the kernel's helper would look for them where the machine's own are.
for module in ipv6 veth dummy sch_ingress cls_bpf nf_tables nft_ct nft_compat nft_chain_nat xt_conntrack xt_mark xt_nat xt_MASQUERADE \
	iptable_nat ip6table_nat vxlan ipvlan macvlan bridge sch_prio cls_matchall act_pedit act_csum ifb sch_gred act_mirred act_skbedit cls_fw; do
	modprobe -d "$2/kernel" "$module" 2>/dev/null || echo "no module $module in $(uname -r)" >&2
done
ip link set lo up
{
	echo "guest kernel $(uname -r)"
	eval "$(cat "$2/command")"
	echo $? >$out/code
} >$out/output 2>&1
mv $out/code $out/exit-code
