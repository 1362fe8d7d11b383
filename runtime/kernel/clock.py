# SPDX-License-Identifier: Apache-2.0
"""The datapath's clock: the kernel's ticks, which are free to read for each packet.

The kernel's build sets the ticks per second (CONFIG_HZ). The resolution of its coarse clocks, which
advance per tick, shows that number. The loader writes it into `pc_clock` (runtime/maps/settings.py).
"""

import time

_MONOTONIC_COARSE = 6  # of linux/time.h; Python has no name for it


def ticks_per_second() -> int:
    """The kernel's CONFIG_HZ."""
    return round(1 / time.clock_getres(_MONOTONIC_COARSE))
