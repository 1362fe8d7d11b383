# SPDX-License-Identifier: Apache-2.0
"""Columns split into parts by the rules that match them, fast for many rules and many parts.

The cost of a rule is the smaller of two numbers: the parts so far, and the columns that it matches or
does not match. So a rule for each of ten thousand peers does not need a pass over all parts.
"""

from collections.abc import Iterable, Sequence

from policyc.ir.bits import members

CellPart = tuple[int, int, int]
"""A cell, the rules that match (a mask), the columns (a mask)."""


class ColumnParts:
    """The columns of one row, by their cells and by the rules given so far.

    A part holds the rules in which it differs from `_usual`, the rules that match most columns. The
    index from column to part is built once scanning the parts has cost as much as building it.
    """

    def __init__(self, cells: Sequence[tuple[int, int]]) -> None:
        """`cells`: each cell with its columns (a mask), which are all columns together."""
        self._cells = [cell for cell, _ in cells]
        self._columns = [columns for _, columns in cells]
        self._from_cell = list(range(len(cells)))
        self._unusual = [0] * len(cells)
        self._usual = 0
        self._every = sum(self._columns)
        self._part_of: list[int] = []
        self._walked = 0
        self._n_rules = 0

    def match(self, rule: int, columns: int) -> None:
        """Record that the rule matches these columns; rules come with ascending numbers, each once."""
        bit = 1 << rule
        self._n_rules = rule + 1
        others = self._every & ~columns
        if others.bit_count() < columns.bit_count():
            self._usual |= bit
            columns = others
        if not columns:
            return
        for part in self._that_may_meet(columns):
            hit = self._columns[part] & columns
            if hit == self._columns[part]:
                self._unusual[part] |= bit
            elif hit:
                self._split(part, hit, bit)

    def found(self) -> list[CellPart]:
        """All parts: cells in the order given, columns without the first rule's match first."""
        matched = [self._usual ^ unusual for unusual in self._unusual]

        def place(part: int) -> tuple[int, int]:
            first_rule_highest = f"{matched[part]:0{self._n_rules}b}"[::-1]
            return self._from_cell[part], int(first_rule_highest, 2)

        return [
            (self._cells[self._from_cell[part]], matched[part], self._columns[part])
            for part in sorted(range(len(matched)), key=place)
        ]

    def _that_may_meet(self, columns: int) -> Iterable[int]:
        """Some parts, each once, which include all that have one of these columns."""
        n_parts, n_columns = len(self._columns), columns.bit_count()
        if n_columns >= n_parts:
            return range(n_parts)
        if not self._part_of:
            if self._walked < self._every.bit_length():
                self._walked += n_parts
                return range(n_parts)
            self._part_of = self._find_parts()
        return {self._part_of[column] for column in members(columns)}

    def _find_parts(self) -> list[int]:
        found = [0] * self._every.bit_length()
        for part, columns in enumerate(self._columns):
            for column in members(columns):
                found[column] = part
        return found

    def _split(self, part: int, hit: int, bit: int) -> None:
        """Split in two; the smaller part is the new one, so that few columns change their part."""
        rest = self._columns[part] & ~hit
        unusual = self._unusual[part]
        stays, goes = (rest, unusual), (hit, unusual | bit)
        if hit.bit_count() > rest.bit_count():
            stays, goes = goes, stays
        if self._part_of:
            for column in members(goes[0]):
                self._part_of[column] = len(self._columns)
        self._columns[part], self._unusual[part] = stays
        self._columns.append(goes[0])
        self._unusual.append(goes[1])
        self._from_cell.append(self._from_cell[part])
