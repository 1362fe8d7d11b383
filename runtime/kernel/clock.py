# SPDX-License-Identifier: Apache-2.0
"""The datapath's clock: the kernel's ticks, which cost a packet nothing to read.

How many there are in a second the kernel was built with (CONFIG_HZ). It says so as the resolution of
its coarse clocks, which move with the tick. The loader leaves it in the map `pc_clock`.
"""

import struct
import time
from pathlib import Path

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall

_MONOTONIC_COARSE = 6  # of linux/time.h; Python has no name for it


def set_rate(pin: Path) -> None:
    """Write the ticks of a second into the map, which hooks of an older bundle do not have."""
    if not pin.exists():
        raise HostError(f"the bundle's hooks have no map `{pin.name}`", "compile the bundle again")
    with bpf_syscall.obj_get(pin) as fd:
        bpf_syscall.map_update(fd, bytes(4), struct.pack("=Q", ticks_per_second()))


def ticks_per_second() -> int:
    """The kernel's CONFIG_HZ."""
    return round(1 / time.clock_getres(_MONOTONIC_COARSE))
