# SPDX-License-Identifier: Apache-2.0
"""The verdicts of a Decision IR as layouts hold them: by viewed row and column, equal rows once.

A layout needs no more of the decisions than this, and it is small: for each row the cells that it has,
and for each column the cell that it meets.
"""

import sys
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from operator import itemgetter
from typing import TypeAlias

from policyc.ir.decision import DecisionIR, Diagram, RuleEntry
from policyc.ir.effects import RuleEffects, effects_of
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.lazy import Made
from policyc.ir.plan import FIRST_COLUMN
from policyc.ir.policy import Direction

_BYTE = 256

Parts: TypeAlias = "bytes | array[int]"
"""For each column, the index of the cell of its row that it meets."""


@dataclass(frozen=True, slots=True)
class ViewedRow:
    """One distinct row: its cells in the order of their first column, and the cell of each column.

    `parts` indexes `cells`, by column id from the first on; `counts` are the numbers of columns of each
    cell.
    """

    cells: tuple[int, ...]
    parts: Parts
    counts: tuple[int, ...]

    def put_words(self, words: Sequence[int], out: bytearray, at: int) -> None:
        """Write the 32-bit little-endian words of all columns to zeros, from the words of cells.

        `at` is the position of the column id 0, which no column has.
        """
        mine = array("I", [words[cell] for cell in self.cells])
        first = at + 4 * FIRST_COLUMN
        last = first + 4 * len(self.parts)
        if not isinstance(self.parts, bytes):
            out[first:last] = little_endian(array("I", [mine[part] for part in self.parts]))
            return
        packed = little_endian(mine)
        for byte in range(4):  # one of all words at once
            theirs = packed[byte::4]
            if any(theirs):
                out[first + byte : last : 4] = self.parts.translate(theirs.ljust(_BYTE, b"\0"))


@dataclass(frozen=True, slots=True)
class ViewedTable:
    """The table of one direction; `of_row` gives for each row id, its index in `rows`."""

    rows: tuple[ViewedRow, ...]
    of_row: tuple[int, ...]


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of a layout.

    `diagrams` are the rule diagrams by cell, `allows` the actions by rule id.

    `rules` are the rules in words, by id; `effects` are the effects of the rules that have any.
    """

    rules: Sequence[str]
    allows: Sequence[bool]
    diagrams: tuple[Diagram, ...]
    tables: Mapping[Direction, ViewedTable]
    effects: Mapping[int, RuleEffects] = field(default_factory=dict)


def little_endian(words: "array[int]") -> bytes:
    """The bytes of 32-bit words, the lowest first, on any machine."""
    if sys.byteorder == "big":
        words = array("I", words)
        words.byteswap()
    return words.tobytes()


def viewed_row(cells: Sequence[int]) -> ViewedRow:
    """The row whose columns meet these cells."""
    order: dict[int, int] = {}
    found = [order.setdefault(cell, len(order)) for cell in cells]
    if len(order) <= _BYTE:
        parts = bytes(found)
        return ViewedRow(tuple(order), parts, tuple(map(parts.count, range(len(order)))))
    counts = Counter(found)  # numbers are met in ascending order
    return ViewedRow(tuple(order), array("I", found), tuple(counts.values()))


def viewed_table(
    decision: DecisionIR, direction: Direction, row_ids: Sequence[int], column_ids: Sequence[int]
) -> ViewedTable:
    """One direction's table; ids are by the Decision IR's rows and columns."""
    table = decision.table(direction)
    columns = first_of(column_ids)
    pick = itemgetter(*columns) if len(columns) > 1 else lambda row: (row[columns[0]],)
    numbers: dict[tuple[int, ...], int] = {}
    met: dict[int, int] = {}  # rows that were decided together are one object
    of_row = []
    for index in first_of(row_ids):
        row = table[index]
        if id(row) not in met:
            met[id(row)] = numbers.setdefault(pick(row), len(numbers))
        of_row.append(met[id(row)])
    return ViewedTable(tuple(map(viewed_row, numbers)), tuple(of_row))


def first_of(ids: Sequence[int]) -> list[int]:
    """For each id, in order, the first index that has it."""
    first: dict[int, int] = {}
    for index, at in enumerate(ids):
        first.setdefault(at, index)
    return [first[at] for at in sorted(first)]


def verdicts_of(
    decision: DecisionIR, ids: Mapping[Direction, tuple[Sequence[int], Sequence[int]]]
) -> Verdicts:
    """A Decision IR's verdicts for layouts; `ids` are (row, column) ids of the directions in use."""
    return Verdicts(
        Made(decision.rules, RuleEntry.describe),
        [not entry.action.is_deny for entry in decision.rules],
        tuple(decision.diagrams[cell.rule] for cell in decision.cells),
        {
            direction: viewed_table(decision, direction, rows, columns)
            for direction, (rows, columns) in ids.items()
        },
        effects_of(decision.rules),
    )
