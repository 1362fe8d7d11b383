# SPDX-License-Identifier: Apache-2.0
"""The searches of runtime/datapath/policy_words.h for all keys at once, as step functions.

`reading.py` defines the same for one key, on numbers or terms; a test compares the two. Nothing is
assumed about the nodes: keys may be in any order, words may lead anywhere.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from policyc.ir.trees import (
    FAN,
    ID_MASK,
    LEAF,
    NEXT_WORD,
    NODE_WORDS,
    NOTHING,
    RANGE,
    RANGE_WORDS,
    RANGES,
    WIDTH,
    parts_of_fan,
)
from policyc.verifier.translation.seeded import SeedError, SeedTable
from policyc.verifier.translation.steps import Piece, Steps, cut, joined

Rounds = tuple[int, int, int, int]

KEY_BITS = 32
LAST_KEY = (1 << KEY_BITS) - 1
HALF_BITS = 16


@dataclass
class Searches:
    """The searches in one table of nodes. `rounds` are a service's; `has_fans` says how it begins."""

    nodes: SeedTable
    rounds: int
    has_fans: bool
    _services: dict[int, Steps] = field(default_factory=dict)
    _nodes: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

    def service(self, word: int) -> Steps:
        """The words that `pc_verdict_of` finds for service keys, if none of them is code."""
        found = self._services.get(word)
        if found is None:
            found = self._services[word] = joined(self._service(word, 0, LAST_KEY))
        return found

    def _service(self, word: int, lo: int, hi: int) -> Iterator[Piece]:
        then = self.fan if self.has_fans else self._search_service
        if word & LEAF or not word & RANGE:
            yield from then(word, lo, hi)
            return
        line, slot = (word & ID_MASK) // RANGES, word % RANGES
        if line >= self.nodes.entries:
            yield from then(NOTHING, lo, hi)
            return
        at = slot * RANGE_WORDS
        lowest, span, inside, outside = (self.nodes.word(line, at + i) for i in range(RANGE_WORDS))
        for first, last in cut(lo, hi, [lowest, lowest + span + 1 & LAST_KEY]):
            is_inside = (first - lowest & LAST_KEY) <= span
            yield from then(inside if is_inside else outside, first, last)

    def _search_service(self, word: int, lo: int, hi: int) -> Iterable[Piece]:
        return self.search(word, lo, hi, self.rounds)

    def fan(self, word: int, lo: int, hi: int, rounds: int | None = None) -> Iterator[Piece]:
        """`pc_search_fan` for the keys lo..hi."""
        rounds = self.rounds if rounds is None else rounds
        if word & (LEAF | NEXT_WORD) or not word & FAN:
            yield from self.search(word, lo, hi, rounds)
            return
        line, below, kinds = parts_of_fan(word)
        most = kinds << HALF_BITS
        places = [*range(lo >> below << below, min(hi, most) + 1, 1 << below), most]
        for first, last in cut(lo, hi, places):
            place = min(first, most) >> below
            at = line + place // NODE_WORDS
            there = self._word(at, place % NODE_WORDS)
            yield from self.search(there, first, last, rounds)

    def half(self, word: int, first: int, rounds: int) -> Iterator[Piece]:
        """As `fan`, for the last 16 bits of each IPv4 address from `first` on, which has the word."""
        for key, found in self.fan(word, 0, (1 << HALF_BITS) - 1, rounds):
            yield first + key, found

    def search(self, word: int, lo: int, hi: int, rounds: int) -> list[Piece]:
        """`pc_search` for the keys lo..hi: down to a leaf, or to where the next word is read."""
        found: list[Piece] = []
        self._search(word, lo, hi, rounds, found)
        return found

    def _search(self, word: int, lo: int, hi: int, rounds: int, found: list[Piece]) -> None:
        if not rounds or word & (LEAF | NEXT_WORD):
            found.append((lo, word))
            return
        lowest, children = self._node(word & ID_MASK)
        while lo <= hi:
            at = bisect_right(lowest, lo)
            last = hi if at == len(lowest) else min(hi, lowest[at] - 1)
            self._search(children[at], lo, last, rounds - 1, found)
            lo = last + 1

    def _node(self, at: int) -> tuple[list[int], list[int]]:
        """The lowest keys of a node in ascending order, and its children; none beyond the array."""
        node = self._nodes.get(at)
        if node is None:
            words = [self._word(at, place) for place in range(2 * WIDTH - 1)]
            node = self._nodes[at] = sorted(words[: WIDTH - 1]), words[WIDTH - 1 :]
        return node

    def long(self, word: int, rounds: Rounds, part: int = 0) -> Iterator[Piece]:
        """`pc_search6` over the rest of a 128-bit key from its word `part` on.

        SeedError if a word leads on for several values of this part of the key, and has different
        results for the rest: no tree of the compiler does.
        """
        if any(after and not before for before, after in pairwise(rounds[1:])):
            raise SeedError(f"rounds {rounds} leave a part of the key out")
        below = KEY_BITS * (3 - part)
        steps = joined(self.search(word, 0, LAST_KEY, rounds[part]))
        ends = [*(first - 1 for first, _ in steps[1:]), LAST_KEY]
        for (first, there), last in zip(steps, ends, strict=True):
            if part == 3 or not rounds[part + 1] or there & LEAF or not there & NEXT_WORD:
                yield first << below, there
                continue
            rest = joined(self.long(there & ID_MASK, rounds, part + 1))
            if len(rest) > 1 and first < last:
                raise SeedError(f"the word {there:#x} leads on for several keys")
            for at, leaf in rest:
                yield (first << below) + at, leaf

    def _word(self, at: int, place: int) -> int:
        return self.nodes.word(at, place) if at < self.nodes.entries else NOTHING


def column_of(word: int) -> int:
    """`pc_column_of`: 0, which fails closed, for a word that is not a leaf."""
    return word & ID_MASK if word & LEAF else 0


def under_roots(
    roots: SeedTable, bits: int, search: Callable[[int, int, int], Iterable[Piece]]
) -> Iterator[Piece]:
    """The results of `search` for the word, first and last key of each value of the leading bits."""
    below = KEY_BITS - bits
    for at in range(1 << bits):
        word = roots.word(at, 0) if at < roots.entries else NOTHING
        first = at << below
        yield from search(word, first, first + (1 << below) - 1)
