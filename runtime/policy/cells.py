# SPDX-License-Identifier: Apache-2.0
"""Writes the word of a (row, column) on the node: into a dense table, or into buckets.

Gives map writes; no program reads the maps before the switch. If a table is full, the cell keeps the
word that denies, or its row does.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from policyc.runtime.bundle.bundle import Bundle
from policyc.runtime.endpoints.placement import MapWrite
from policyc.runtime.policy.trees import verdict_word

FAIL_CLOSED_RULE = 1
CLOSED = verdict_word(False, FAIL_CLOSED_RULE)
SLOTS = 4
MASK64 = (1 << 64) - 1
FIRST_FACTOR = 0x9E3779B97F4A7C15
SECOND_FACTOR = 0xC2B2AE3D27D4EB4F
MAX_MOVES = 500
NEW_BUCKET = [0] * 12 + [1] + [0] * 3
"""An empty bucket that counts as filled."""


class Cells(Protocol):
    """The table of one direction."""

    n_refused: int
    """How often a cell found no room, and denies instead."""
    closed: set[int]
    """Rows that deny more than their policies, because they found no room."""

    def new_row(self, row: int, words: Mapping[int, int]) -> list[MapWrite]:
        """Write a row: column id -> word."""
        ...

    def new_column(self, column: int, words: Mapping[int, int]) -> list[MapWrite]:
        """Write a column: row id -> word."""
        ...


def cells_of(bundle: Bundle, short: str, plan: Mapping[str, Any]) -> Cells:
    """The table of a direction as plan.json lays it out."""
    if plan["cells"] == "dense":
        return DenseCells(f"pc_cells_{short}", plan["columns"]["capacity"])
    return HashedCells(bundle, short, plan["buckets"])


class DenseCells:
    """Every cell has its own word."""

    def __init__(self, name: str, stride: int) -> None:
        self._name = name
        self._stride = stride
        self.n_refused = 0
        self.closed: set[int] = set()

    def new_row(self, row: int, words: Mapping[int, int]) -> list[MapWrite]:
        """Write a row: column id -> word."""
        return [self._write(row, column, word) for column, word in words.items()]

    def new_column(self, column: int, words: Mapping[int, int]) -> list[MapWrite]:
        """Write a column: row id -> word."""
        return [self._write(row, column, word) for row, word in words.items()]

    def _write(self, row: int, column: int, word: int) -> MapWrite:
        return MapWrite(self._name, row * self._stride + column, (word,))


class HashedCells:
    """Keeps only cells that differ from their row's usual word, each in one of two buckets."""

    def __init__(self, bundle: Bundle, short: str, n_buckets: int) -> None:
        self._buckets_name, self._usual_name = f"pc_buckets_{short}", f"pc_usual_{short}"
        self._n_buckets = n_buckets
        self._usual = dict(enumerate(bundle.seed_words(self._usual_name)))
        words = bundle.seed_words(self._buckets_name)
        self._buckets: dict[int, list[int]] = {
            at // 16: list(words[at : at + 16])
            for at in range(0, len(words), 16)
            if any(words[at : at + 8])
        }
        self._lost: list[tuple[int, int, int]] = []
        self.n_refused = 0
        self.closed: set[int] = set()

    def new_row(self, row: int, words: Mapping[int, int]) -> list[MapWrite]:
        """Write a row; its most common word becomes the usual one."""
        usual = min(Counter(words.values()).items(), key=lambda item: (-item[1], item[0]))[0]
        self._usual[row] = usual
        writes = [MapWrite(self._usual_name, row, (usual,))]
        return writes + self._set((row, column, word) for column, word in words.items())

    def new_column(self, column: int, words: Mapping[int, int]) -> list[MapWrite]:
        """Write a column; rows for which it is the usual word need no entry."""
        return self._set((row, column, word) for row, word in words.items())

    def _set(self, cells: Iterable[tuple[int, int, int]]) -> list[MapWrite]:
        touched: dict[int, None] = {}
        for row, column, word in cells:
            if word != self._usual.get(row, 0):
                self._insert((row, column, word), touched)
        writes = [MapWrite(self._buckets_name, at, tuple(self._buckets[at])) for at in touched]
        return [*writes, *self._closed_rows()]

    def _insert(self, entry: tuple[int, int, int], touched: dict[int, None]) -> None:
        """Put an entry into one of its buckets; if both are full, another entry moves."""
        avoid = -1
        for move in range(MAX_MOVES):
            first, second = bucket_of(entry[0], entry[1], self._n_buckets)
            for at in (first, second):
                slot = self._free_slot(at)
                if slot is not None:
                    self._store(at, slot, entry)
                    touched[at] = None
                    return
            at = second if first == avoid else first
            entry = self._exchange(at, move % SLOTS, entry)
            touched[at] = None
            avoid = at
        self.n_refused += 1
        self._lost.append(entry)

    def _free_slot(self, at: int) -> int | None:
        bucket = self._buckets.setdefault(at, list(NEW_BUCKET))
        return next((slot for slot in range(SLOTS) if not bucket[2 * slot + 1]), None)

    def _store(self, at: int, slot: int, entry: tuple[int, int, int]) -> None:
        bucket = self._buckets[at]
        bucket[2 * slot + 1], bucket[2 * slot], bucket[2 * SLOTS + slot] = entry

    def _exchange(self, at: int, slot: int, entry: tuple[int, int, int]) -> tuple[int, int, int]:
        bucket = self._buckets[at]
        before = bucket[2 * slot + 1], bucket[2 * slot], bucket[2 * SLOTS + slot]
        self._store(at, slot, entry)
        return before

    def _closed_rows(self) -> list[MapWrite]:
        """Deny rows with an unplaced cell: their usual word may allow, and must not apply to it."""
        rows = dict.fromkeys(row for row, _, _ in self._lost)
        self._lost.clear()
        for row in rows:
            self._usual[row] = CLOSED
        self.closed.update(rows)
        return [MapWrite(self._usual_name, row, (CLOSED,)) for row in rows]


def bucket_of(row: int, column: int, n_buckets: int) -> tuple[int, int]:
    """The two buckets of a key, as pc_hashed() finds them; `n_buckets` is a power of two."""
    mixed = ((row << 32 | column) * FIRST_FACTOR) & MASK64
    mixed ^= mixed >> 32
    mixed = (mixed * SECOND_FACTOR) & MASK64
    return (mixed >> 32) & (n_buckets - 1), (mixed ^ mixed >> 47) & (n_buckets - 1)
