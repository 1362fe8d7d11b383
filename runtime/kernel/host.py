# SPDX-License-Identifier: Apache-2.0
"""The requirements of a node before a load: root, a recent kernel, and the kernel's BTF."""

import os
import re
from pathlib import Path

from policyc.runtime.errors import HostError

KERNEL_BTF = Path("/sys/kernel/btf/vmlinux")
REALTIME = Path("/sys/kernel/realtime")  # "1" on PREEMPT_RT; elsewhere it does not exist


def require_root() -> None:
    """Require root: loading and attaching programs needs all its capabilities here."""
    if os.geteuid() != 0:
        raise HostError("this needs root", "run it with sudo, or in a privileged container")


def require_kernel(minimum: tuple[int, int]) -> None:
    """Require a kernel that is at least as new as the bundle needs."""
    release = os.uname().release
    found = re.match(r"(\d+)\.(\d+)", release)
    if not found or (int(found[1]), int(found[2])) < minimum:
        raise HostError(
            f"the bundle needs Linux {minimum[0]}.{minimum[1]} or later, this is {release}"
        )


def require_kernel_btf() -> None:
    """Require the kernel's BTF, a documented platform requirement."""
    if not KERNEL_BTF.exists():
        raise HostError(
            f"the kernel has no BTF: {KERNEL_BTF} is missing",
            "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, with sysfs mounted at /sys",
        )


def require_not_realtime() -> None:
    """Require a kernel without PREEMPT_RT: packets that preempt each other share per-CPU memory."""
    if REALTIME.exists() and REALTIME.read_text().strip() == "1":
        raise HostError(
            "this is a PREEMPT_RT kernel, where packets preempt each other",
            "use a kernel without PREEMPT_RT",
        )
