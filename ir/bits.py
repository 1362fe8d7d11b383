# SPDX-License-Identifier: Apache-2.0
"""Sets of small numbers as Python integers: bit n is set if n is a member."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

_FEW = 6


def bits_of(members: Sequence[int]) -> int:
    """The set of some numbers. The time is linear in the largest."""
    if len(members) <= _FEW:
        out = 0
        for member in members:
            out |= 1 << member
        return out
    buffer = bytearray(max(members) // 8 + 1)
    for member in members:
        buffer[member >> 3] |= 1 << (member & 7)
    return int.from_bytes(buffer, "little")


def members(bits: int) -> list[int]:
    """The numbers in a set, ascending."""
    if bits.bit_count() <= _FEW:
        out = []
        while bits:
            low = bits & -bits
            out.append(low.bit_length() - 1)
            bits ^= low
        return out
    text = bin(bits)[:1:-1]
    found, at = [], text.find("1")
    while at >= 0:
        found.append(at)
        at = text.find("1", at + 1)
    return found


def bits_of_each(values: Iterable[T]) -> dict[T, int]:
    """Each value, in order of first use, with the set of the positions where it occurs."""
    places: defaultdict[T, list[int]] = defaultdict(list)
    for at, value in enumerate(values):
        places[value].append(at)
    return {value: bits_of(its_places) for value, its_places in places.items()}


def hash_of(bits: int) -> int:
    """A hash of a set. The hash of the number itself has only 61 values for all sets of one member."""
    return hash((bits.bit_length(), bits))


def first(bits: int) -> int:
    """The least number in a set that is not empty."""
    return (bits & -bits).bit_length() - 1


def span(lo: int, hi: int) -> int:
    """The set of lo to hi - 1."""
    return (1 << hi) - (1 << lo) if hi > lo else 0


def union(sets: Iterable[int]) -> int:
    """The union of the sets."""
    out = 0
    for one in sets:
        out |= one
    return out
