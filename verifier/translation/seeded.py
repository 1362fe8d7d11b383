# SPDX-License-Identifier: Apache-2.0
"""The tables of a generation as the node will have them: the bytes of the seeds, then zeros.

This module does not know how seeds are made: it reads words by index, as the program does.
"""

import sys
from array import array
from collections.abc import Mapping

from policyc.ir.fast_dataclass import dataclass

WORD = 4
"""Bytes of a word, little-endian whatever the machine."""


class SeedError(Exception):
    """A seed that its map cannot hold; the text describes the fault."""


@dataclass(frozen=True)
class SeedTable:
    """An array of `entries` values of `width` words each; `words` are those from the first value on.

    The words after the seed are zero, as the kernel creates arrays.
    """

    name: str
    entries: int
    width: int
    words: "array[int]"

    def word(self, entry: int, at: int) -> int:
        """Word `at` of a value, 0 after the end of the seed; IndexError outside the array."""
        if not (0 <= entry < self.entries and 0 <= at < self.width):
            raise IndexError(f"{self.name} has no word {at} of entry {entry}")
        place = entry * self.width + at
        return self.words[place] if place < len(self.words) else 0


def seed_table(name: str, data: bytes | bytearray, entries: int, width: int) -> SeedTable:
    """The table of a seed's bytes; SeedError if they are not whole words, or exceed the array."""
    if len(data) % WORD:
        raise SeedError(f"the seed of {name} ends within a word")
    if len(data) > WORD * width * entries:
        raise SeedError(f"the seed of {name} is larger than the map")
    words = array("I", bytes(data))
    if sys.byteorder == "big":
        words.byteswap()
    return SeedTable(name, entries, width, words)


@dataclass(frozen=True)
class Prefixes:
    """A longest-prefix table: (first address, prefix length) -> column."""

    name: str
    bits: int
    columns: Mapping[tuple[int, int], int]


def prefixes(name: str, data: bytes | bytearray, entries: int, bits: int) -> Prefixes:
    """The trie of a seed's bytes; SeedError if the kernel would refuse it or drop duplicates."""
    size = WORD + bits // 8 + WORD
    if len(data) % size:
        raise SeedError(f"the seed of {name} ends within an entry")
    if len(data) > size * entries:
        raise SeedError(f"the seed of {name} has more entries than the map")
    found: dict[tuple[int, int], int] = {}
    for at in range(0, len(data), size):
        length = int.from_bytes(data[at : at + WORD], "little")
        address = int.from_bytes(data[at + WORD : at + size - WORD], "big")
        if length > bits:
            raise SeedError(f"{name} has a prefix of {length} bits")
        first = address >> (bits - length) << (bits - length)
        if (first, length) in found:
            raise SeedError(f"{name} has a prefix of {length} bits twice")
        found[first, length] = int.from_bytes(data[at + size - WORD : at + size], "little")
    return Prefixes(name, bits, found)
