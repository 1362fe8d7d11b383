#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What runs in the guest: the lab, on the guest's kernel.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 TERM=dumb COLUMNS=120 PYTHONDONTWRITEBYTECODE=1
cd "$1" || exit 3
echo "guest kernel $(uname -r)"
mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm
for module in ipv6 veth sch_ingress cls_bpf; do modprobe "$module" 2>/dev/null; done
ip link set lo up
.venv/bin/policyc lab -f examples/online-shop/policies --cluster examples/online-shop/cluster
echo "guest exit code $?"
