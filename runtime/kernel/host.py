# SPDX-License-Identifier: Apache-2.0
"""What a node needs before anything is loaded: root, a kernel that is new enough, its BTF."""

import os
import re
from pathlib import Path

from policyc.runtime.errors import HostError

KERNEL_BTF = Path("/sys/kernel/btf/vmlinux")
REALTIME = Path("/sys/kernel/realtime")  # "1" on PREEMPT_RT; elsewhere it is not there


def require_root() -> None:
    """Loading programs and attaching them needs all of root's capabilities here."""
    if os.geteuid() != 0:
        raise HostError("this needs root", "run it with sudo, or in a privileged container")


def require_kernel(minimum: tuple[int, int]) -> None:
    """The kernel is at least as new as the bundle asks for."""
    release = os.uname().release
    found = re.match(r"(\d+)\.(\d+)", release)
    if not found or (int(found[1]), int(found[2])) < minimum:
        raise HostError(
            f"the bundle needs Linux {minimum[0]}.{minimum[1]} or later, this is {release}"
        )


def require_kernel_btf() -> None:
    """The kernel describes its own types; a platform requirement, as the documentation says."""
    if not KERNEL_BTF.exists():
        raise HostError(
            f"the kernel has no BTF: {KERNEL_BTF} is missing",
            "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, with sysfs mounted at /sys",
        )


def require_not_realtime() -> None:
    """A packet is not preempted by another on its CPU: they share per-CPU memory."""
    if REALTIME.exists() and REALTIME.read_text().strip() == "1":
        raise HostError(
            "this is a PREEMPT_RT kernel, where packets preempt each other",
            "use a kernel without PREEMPT_RT",
        )
