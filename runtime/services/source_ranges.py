# SPDX-License-Identifier: Apache-2.0
"""Lists of client ranges of load balancer addresses, for datapath/source_range.h.

The map has both buffers of the tables of Services. `write` fills one; `empty` clears one.
"""

from collections.abc import Iterator

from policyc.runtime.bundle.address_value import Network
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.pinned_map import PRESENT
from policyc.runtime.maps.source_ranges import SourceRanges


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

    def ranges(self) -> Iterator[tuple[int, Network]]:
        """The number of a list, and one of its ranges."""
        for (_, ranges), number in self._numbers.items():
            for each in ranges:
                yield number, each


def write(pins: Pins, lists: Lists, buffer: int) -> None:
    """Write the lists into a buffer that is empty and inactive."""
    with SourceRanges(pins) as ranges:
        for number, network in lists.ranges():
            ranges.put(ranges.key_of(buffer, number, network), PRESENT)


def empty(pins: Pins, buffer: int) -> None:
    """Remove everything from the buffer."""
    with SourceRanges(pins) as ranges:
        for key in ranges.all_keys():
            if ranges.buffer_of(key) == buffer:
                ranges.delete(key)
