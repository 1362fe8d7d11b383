# SPDX-License-Identifier: Apache-2.0
"""Maglev's tables: the endpoint for each hash of a client, the same on every node.

The algorithm is that of Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer"
(NSDI 2016), section 3.4. Two hashes of an endpoint's name give it a permutation of the table's entries.
The endpoints take turns, and each takes its next free entry. If an endpoint is removed, few entries of
the others change; how few depends on the number of entries per endpoint.

`Tables` gives every set of endpoints a place in datapath/maglev.h.
"""

import hashlib
from array import array
from collections.abc import Iterable, Sequence

from policyc.runtime.errors import InputError

SIZES = (251, 1021, 4093, 16381, 65521)
"""The table sizes that a Service may ask for: primes, because a permutation has a constant step."""
USUAL = 65521
"""The default. With 100 endpoints, a removal moves 0.6 % of the others' entries; at most about 1 %."""


def slots(names: Sequence[bytes], size: int) -> list[int]:
    """The index of each entry's endpoint, from 0 on. `size` is a prime."""
    found = [0] * size
    is_taken = bytearray(size)
    digests = [hashlib.blake2b(name, digest_size=16).digest() for name in names]
    next_of = [int.from_bytes(each[:8], "big") % size for each in digests]
    steps = [int.from_bytes(each[8:], "big") % (size - 1) + 1 for each in digests]
    left = size if names else 0
    while left:
        for number, step in enumerate(steps):
            place = next_of[number]
            while is_taken[place]:
                place = (place + step) % size
            found[place] = number
            is_taken[place] = 1
            next_of[number] = (place + step) % size
            left -= 1
            if not left:
                break
    return found


class Tables:
    """One table for each set of endpoints, within a number of entries."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._places: dict[tuple[int, tuple[bytes, ...]], int] = {}
        self._used = 0

    def of(self, names: Iterable[bytes], size: int) -> int:
        """The start of the endpoints' table; 0 if there are none, or none is wanted (size 0)."""
        key = size, tuple(names)
        if not size or not key[1]:
            return 0
        if key not in self._places:
            if self._used + size > self._room:
                raise InputError(
                    f"the limit of {self._room} slots of Maglev tables is exceeded",
                    "choose smaller tables with the annotation policyc.dev/maglev-slots",
                )
            self._places[key] = self._used
            self._used += size
        return self._places[key]

    def memory(self) -> bytes:
        """All tables, from the start of a buffer."""
        return b"".join(array("H", slots(names, size)).tobytes() for size, names in self._places)
