#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tests of the kernel's TLS on bypassed connections, in a guest whose kernel has the module, after `make install`:
# tests/guest/bypass_tls.sh SERIES
set -euo pipefail
series=${1:?usage: bypass_tls.sh SERIES}
cd "$(dirname "$0")/../.."
GUEST_SECONDS=${GUEST_SECONDS:-900} tests/guest/run.sh "$series" bash -c "
	for each in tls ctr gcm ghash_generic aesni_intel; do
		modprobe -d build/guest/$series/kernel \$each || echo no module \$each
	done
	mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir /sys/fs/cgroup/unified
	mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
	.venv/bin/python -m pytest -q -n 0 -p no:cacheprovider --timeout 600 tests/kernel/bypass/kernel_tls.py"
