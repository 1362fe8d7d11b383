# SPDX-License-Identifier: Apache-2.0
"""Lists of client ranges of load balancer addresses, for datapath/source_range.h.

The map has both buffers of the tables of Services. `write` fills one; `empty` clears one.
"""

import struct

from policyc.runtime.bundle.address_value import Network
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins

RANGES = 8192
"""Per buffer."""
_MAP = "pc_ranges"
_KEY = struct.Struct("=I4s16s")
"""struct pc_range_key."""


class Lists:
    """Each list once, with its number from 1 on; 0 allows every client."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, tuple[Network, ...]], int] = {}

    def of(self, ranges: tuple[Network, ...] | None) -> int:
        """The number of a list of one family's ranges; the list may be empty."""
        if ranges is None:
            return 0
        family = ranges[0].version if ranges else 0
        return self._numbers.setdefault((family, ranges), len(self._numbers) + 1)

    @property
    def n_ranges(self) -> int:
        """The number of ranges in all lists."""
        return sum(len(ranges) for _, ranges in self._numbers)

    def keys(self, half: int) -> list[bytes]:
        """A struct pc_range_key for each range."""
        return [
            _KEY.pack(
                32 + each.prefixlen,
                struct.pack("!I", number | half << 31),
                each.network_address.packed.ljust(16, b"\0"),
            )
            for (_, ranges), number in self._numbers.items()
            for each in ranges
        ]


def write(pins: Pins, lists: Lists, half: int) -> None:
    """Write the lists into a buffer that is empty and inactive."""
    with bpf_syscall.obj_get(pins.map(_MAP)) as fd:
        for key in lists.keys(half):
            bpf_syscall.map_update(fd, key, struct.pack("=I", 1))


def empty(pins: Pins, half: int) -> None:
    """Remove everything from the buffer."""
    with bpf_syscall.obj_get(pins.map(_MAP)) as fd:
        for key in list(bpf_syscall.map_keys(fd, _KEY.size)):
            if key[4] >> 7 == half:
                bpf_syscall.map_delete(fd, key)
