# SPDX-License-Identifier: Apache-2.0
"""The uplinks where XDP forwards packets, and their counters (datapath/xdp_map.h)."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from policyc.runtime.bundle.address_value import Address, packed
from policyc.runtime.kernel.per_cpu import possible_cpus
from policyc.runtime.maps.pinned_map import PinnedMap


@dataclass(frozen=True, slots=True)
class DescribedUplink:
    """What the program knows of a device, as far as the loader needs it again."""

    is_generic: bool
    place: int
    """The index of its counters."""
    value: bytes
    """All of it."""


class XdpUplinks(PinnedMap):
    """pc_xdp_uplinks: by ifindex, what the program must know of a device."""

    NAME = "pc_xdp_uplinks"

    def value_of(
        self, own: Mapping[int, Address], mac: bytes, is_generic: bool, place: int
    ) -> bytes:
        """`own` has family -> the node's address there; `place` is the index of its counters."""
        return self.value.pack(
            own4=packed(own[4]) if 4 in own else bytes(16),
            own6=packed(own[6]) if 6 in own else bytes(16),
            mac=mac,
            is_generic=is_generic,
            place=place,
        )

    def described(self) -> dict[int, DescribedUplink]:
        """Ifindex -> what the program knows."""
        return {
            int.from_bytes(key, sys.byteorder): DescribedUplink(
                bool(self.value.number(value, "is_generic")),
                self.value.number(value, "place"),
                value,
            )
            for key, value in self.items()
        }


class XdpCounts(PinnedMap):
    """pc_xdp_count: packets of each uplink, per CPU."""

    NAME = "pc_xdp_count"

    def reset(self, place: int) -> None:
        """Begin at zero."""
        self.put(self.number_key(place), bytes(self.info.value_size * possible_cpus()))
