# SPDX-License-Identifier: Apache-2.0
"""The searches in nodes as functions of one key (docs/bundle-format.md, "Words"); see `reading.py`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from policyc.ir.trees import (
    FAN,
    ID_MASK,
    LEAF,
    NEXT_WORD,
    NODE_WORDS,
    NOTHING,
    RANGE_WORDS,
    RANGES,
    WIDTH,
)
from policyc.verifier.bytecode.values import Bits, Domain, Truth
from policyc.verifier.translation.words import Words

Table = Callable[[Bits, Bits], Bits]
"""(entry, word of its value) -> that word, for an entry that is there."""


@dataclass(frozen=True)
class TableReading:
    """Tables of words by the names of their maps, with their numbers of entries."""

    domain: Domain
    tables: Mapping[str, Table]
    entries: Mapping[str, int]

    @cached_property
    def words(self) -> Words:
        """The operations on words."""
        return Words(self.domain)

    def _in_range(self, word: Bits, key: Bits) -> Bits:
        a = self.words
        line = a.down(a.mask(word, ID_MASK), RANGES.bit_length() - 1)
        first = a.up(a.mask(word, RANGES - 1), RANGE_WORDS.bit_length() - 1)
        is_there, node = self._entry("pc_nodes", line)
        if is_there is False:
            return NOTHING
        lowest, span = node(first), node(a.add(first, 1))
        place = a.choose(a.at_most(a.subtract(key, lowest), span), 2, 3)
        return a.choose(is_there, node(a.add(first, place)), NOTHING)

    def _search_fan(self, word: Bits, key: Bits, rounds: int, is_service: bool = False) -> Bits:
        a = self.words
        is_fan = a.has_of(word, FAN, among=LEAF | NEXT_WORD | FAN)
        start = a.choose(is_fan, self._in_fan(word, key), word)
        return self._search(start, key, rounds, is_service)

    def _in_fan(self, word: Bits, key: Bits) -> Bits:
        a = self.words
        most = a.up(a.mask(a.down(word, 26), 7), 16)
        key = a.choose(a.at_most(key, most), key, most)
        place = a.down(key, a.mask(a.down(word, 22), 15))
        line = a.add(a.mask(word, 0x3FFFFF), a.down(place, NODE_WORDS.bit_length() - 1))
        return self._looked_up("pc_nodes", line, a.mask(place, NODE_WORDS - 1))

    def _search(self, word: Bits, key: Bits, rounds: int, is_service: bool = False) -> Bits:
        a = self.words
        for _ in range(rounds):
            there = a.domain.either(self.words.has(word, LEAF), self.words.has(word, NEXT_WORD))
            word = a.choose(there, word, self._child(word, key, is_service))
        return word

    def _child(self, word: Bits, key: Bits, is_service: bool) -> Bits:
        a, at = self.words, self.words.mask(word, ID_MASK)
        is_there, node = self._entry("pc_nodes", at)
        if is_there is False:
            return NOTHING
        below: Bits = 0
        for place in range(WIDTH - 1):
            below = a.add(below, a.choose(self._is_below(node(place), key, is_service), 1, 0))
        return a.choose(is_there, node(a.add(below, WIDTH - 1)), NOTHING)

    def _is_below(self, lowest: Bits, key: Bits, is_service: bool) -> Truth:
        """Lowest <= key; for a service, to which one can be added, in the form that programs use."""
        a = self.words
        if not is_service:
            return a.at_most(lowest, key)
        return a.domain.no(a.at_most(a.add(1, key), lowest))

    def _looked_up(self, name: str, entry: Bits, at: Bits) -> Bits:
        """A word of an entry, NOTHING beyond the array."""
        is_there, words = self._entry(name, entry)
        return NOTHING if is_there is False else self.words.choose(is_there, words(at), NOTHING)

    def _entry(self, name: str, entry: Bits) -> tuple[Truth, Callable[[Bits], Bits]]:
        """Whether an array has an entry, and its words."""
        return self.words.at_most(entry, self.entries[name] - 1), partial(self.tables[name], entry)

    def _steps(self, steps: Sequence[tuple[int, int]], words: Sequence[Bits]) -> Bits:
        """The value of the last step that is not above a key of some words."""
        a = self.words
        found: Bits = steps[0][1]
        for lowest, value in steps[1:]:
            found = a.choose(self._not_above(lowest, words), value, found)
        return found

    def _not_above(self, number: int, words: Sequence[Bits]) -> Truth:
        """Number <= key, both as their words from the most significant on."""
        a = self.words
        parts = [number >> 32 * (len(words) - 1 - i) & 0xFFFFFFFF for i in range(len(words))]
        found = a.at_most(parts[-1], words[-1])
        for part, word in zip(parts[-2::-1], words[-2::-1], strict=True):
            below = a.all_of(a.at_most(part, word), a.domain.no(a.equal(part, word)))
            found = a.domain.either(below, a.all_of(a.equal(part, word), found))
        return found
