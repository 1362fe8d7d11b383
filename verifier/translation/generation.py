# SPDX-License-Identifier: Apache-2.0
"""One generation as it will be loaded: the declaration and the seed of each map."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policyc.verifier.translation.seeded import (
    WORD,
    Prefixes,
    SeedError,
    SeedTable,
    prefixes,
    seed_table,
)

_TRIE_BITS = {8: 32, 20: 128}
"""Bytes of a trie's key -> bits of an address."""


@dataclass(frozen=True)
class LoadedMap:
    """A map of the object with its seed: sizes in bytes, as the object declares them."""

    name: str
    kind: str
    entries: int
    key_bytes: int
    value_bytes: int
    seed: bytes | bytearray = b""


@dataclass(frozen=True)
class Generation:
    """The arrays and the tries of a generation, by their names."""

    tables: Mapping[str, SeedTable]
    tries: Mapping[str, Prefixes]


def generation_of(maps: Iterable[LoadedMap]) -> Generation:
    """The tables; SeedError if a seed does not fit its map, or a map without seeds has one."""
    tables: dict[str, SeedTable] = {}
    tries: dict[str, Prefixes] = {}
    for each in maps:
        if each.kind == "array" and not each.value_bytes % WORD:
            width = each.value_bytes // WORD
            tables[each.name] = seed_table(each.name, each.seed, each.entries, width)
        elif each.kind == "lpm" and each.key_bytes in _TRIE_BITS:
            bits = _TRIE_BITS[each.key_bytes]
            tries[each.name] = prefixes(each.name, each.seed, each.entries, bits)
        elif each.seed:
            raise SeedError(f"{each.name} is no map that has a seed")
    return Generation(tables, tries)
