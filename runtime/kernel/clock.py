# SPDX-License-Identifier: Apache-2.0
"""The datapath's clock: the kernel's ticks, which are free to read for each packet.

The kernel's build sets the ticks per second (CONFIG_HZ). The resolution of its coarse clocks, which
advance per tick, shows that number. The loader writes it into the map `pc_clock`.
"""

import struct
import time
from pathlib import Path

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall

_MONOTONIC_COARSE = 6  # of linux/time.h; Python has no name for it


def set_rate(pin: Path) -> None:
    """Write the ticks per second into the map; hooks of an older bundle have no such map."""
    if not pin.exists():
        raise HostError(f"the bundle's hooks have no map `{pin.name}`", "compile the bundle again")
    with bpf_syscall.obj_get(pin) as fd:
        bpf_syscall.map_update(fd, bytes(4), struct.pack("=Q", ticks_per_second()))


def ticks_per_second() -> int:
    """The kernel's CONFIG_HZ."""
    return round(1 / time.clock_getres(_MONOTONIC_COARSE))
