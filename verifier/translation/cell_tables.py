# SPDX-License-Identifier: Apache-2.0
"""The word of every (row, column) in the seeds: in a dense table, or in buckets."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from policyc.ir.plan import CellLayout, DirectionPlan
from policyc.ir.trees import (
    NODE_WORDS,
    NOTHING,
)
from policyc.verifier.bytecode.values import NUMBERS
from policyc.verifier.translation.bucket_places import FILLED, SLOTS, bucket_places
from policyc.verifier.translation.seeded import SeedError, SeedTable


class CellWords(Protocol):
    """The words of rows, by their ids."""

    def of_row(self, row: int, columns: Sequence[int]) -> list[int]:
        """The words of these columns, in their order."""
        ...

    def are_spare_empty(self, rows: int, columns: int) -> bool:
        """Whether row 0 and column 0 are empty, and all rows and columns beyond these counts."""
        ...


def cell_words(direction: DirectionPlan, tables: Mapping[str, SeedTable]) -> CellWords:
    """The cells of a direction; SeedError if a table is missing, or no search finds an entry."""
    if direction.cells is CellLayout.DENSE:
        table = _table(tables, f"pc_cells_{direction.short}", 1, direction.dense_words)
        return _Dense(table, direction.rows.capacity, direction.columns.capacity)
    buckets = _table(tables, f"pc_buckets_{direction.short}", NODE_WORDS, direction.buckets)
    usual = _table(tables, f"pc_usual_{direction.short}", 1, direction.rows.capacity)
    return _Buckets(_entries(buckets), usual)


def _table(tables: Mapping[str, SeedTable], name: str, width: int, entries: int) -> SeedTable:
    table = tables.get(name)
    if table is None or (table.width, table.entries) != (width, entries):
        raise SeedError(f"there is no {name} of {entries} values of {width} words")
    return table


@dataclass(frozen=True)
class _Dense:
    table: SeedTable
    rows: int
    columns: int

    def of_row(self, row: int, columns: Sequence[int]) -> list[int]:
        """As `pc_dense` finds them: outside the table the word is 0."""
        if not 0 <= row < self.rows:
            return [NOTHING] * len(columns)
        first = row * self.columns
        mine = self.table.words[first : first + self.columns]
        mine.extend([NOTHING] * (self.columns - len(mine)))
        return [mine[c] if 0 <= c < self.columns else NOTHING for c in columns]

    def are_spare_empty(self, rows: int, columns: int) -> bool:
        """Row by row: before the used rows, between them, after the last."""
        words, size = self.table.words, self.columns
        spare = [words[:size], words[rows * size :]]
        spare += [words[row * size + columns : (row + 1) * size + 1] for row in range(1, rows)]
        return not any(map(any, spare))


@dataclass(frozen=True)
class _Buckets:
    entries: Mapping[int, Mapping[int, int]]
    usual: SeedTable

    def of_row(self, row: int, columns: Sequence[int]) -> list[int]:
        """As `pc_hashed` finds them: a column without an entry has its row's usual word."""
        if not 0 < row < self.usual.entries:
            return [NOTHING] * len(columns)
        mine, usual = self.entries.get(row, {}), self.usual.word(row, 0)
        return [mine.get(c, usual) if c else NOTHING for c in columns]

    def are_spare_empty(self, rows: int, columns: int) -> bool:
        """Row 0 and column 0 are never looked up; spare columns have their row's usual word."""
        held = ((row, column) for row, entries in self.entries.items() for column in entries)
        beyond = any(not (0 < row < rows and 0 < column < columns) for row, column in held)
        return not beyond and not any(self.usual.words[rows:])


def _entries(buckets: SeedTable) -> dict[int, dict[int, int]]:
    """Row -> column -> word, of entries that a search finds."""
    found: defaultdict[int, dict[int, int]] = defaultdict(dict)
    words = buckets.words
    if len(words) != buckets.entries * NODE_WORDS:
        raise SeedError(f"{buckets.name} has buckets without contents")
    for at in range(buckets.entries):
        bucket = words[at * NODE_WORDS : (at + 1) * NODE_WORDS]
        if not bucket[FILLED]:
            raise SeedError(f"{buckets.name} has buckets without contents")
        for slot in range(SLOTS):
            column, row, word = bucket[2 * slot], bucket[2 * slot + 1], bucket[2 * SLOTS + slot]
            if not (row or column):
                continue
            if at not in bucket_places(NUMBERS, row, column, buckets.entries):
                raise SeedError(f"{buckets.name} has ({row}, {column}) where no search looks")
            if column in found[row] or word == NOTHING:
                raise SeedError(f"{buckets.name} has ({row}, {column}) twice, or without a word")
            found[row][column] = word
    return found
