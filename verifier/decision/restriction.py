# SPDX-License-Identifier: Apache-2.0
"""Lemma R: the rows of a node's Decision IR agree with those of the whole cluster's Decision IR.

So a proof of the whole holds for the part: for every local subject, against every peer. A finite check,
cell by cell; `ir/restrict.py`, which made the part, is not used.
"""

from collections.abc import Collection, Iterator

from policyc.ir.decision import DecisionIR
from policyc.ir.policy import Direction
from policyc.verifier.decision.outcome import Broken

LEMMA = "restriction"


def restriction_faults(
    whole: DecisionIR, part: DecisionIR, subjects: Collection[str]
) -> Iterator[Broken]:
    """The faults of the part; `subjects` are the qualified names of the node's pods."""
    if part.atoms.classifier != whole.atoms.classifier or part.atoms.columns != whole.atoms.columns:
        yield Broken(LEMMA, "the part has other columns than the whole")
        return
    if part.tables != whole.tables or part.rules != whole.rules:
        yield Broken(LEMMA, "the part has other rules than the whole")
    rows = [whole.atoms.row_index.get(row, -1) for row in part.atoms.rows]
    if not rows or rows[0] != 0 or -1 in rows or len(set(rows)) != len(rows):
        yield Broken(LEMMA, "the part has a row that the whole has not, or lacks the first")
        return
    for name in sorted(subjects):
        if name in whole.atoms.row_of:
            at = part.atoms.row_of.get(name, -1)
            if not 0 <= at < len(rows) or rows[at] != whole.atoms.row_of[name]:
                yield Broken(LEMMA, f"{name} is in another row", row=at)
    yield from _tables(whole, part, rows)


def _tables(whole: DecisionIR, part: DecisionIR, rows: list[int]) -> Iterator[Broken]:
    """Every cell has the same diagrams as in the whole."""
    equal: set[tuple[int, int]] = set()
    for direction in Direction:
        table = part.table(direction)
        if len(table) != len(rows):
            yield Broken(LEMMA, "the part has not one row of cells per row", direction)
            continue
        for index, row in enumerate(rows):
            mine, theirs = table[index], whole.table(direction)[row]
            if len(mine) != len(theirs):
                yield Broken(LEMMA, "the part has not one cell per column", direction, index)
                continue
            for pair in set(zip(mine, theirs, strict=True)) - equal:
                if not _is_same(whole, part, pair):
                    what = f"a cell of row {index} is not that of the whole"
                    yield Broken(LEMMA, what, direction, index)
                equal.add(pair)


def _is_same(whole: DecisionIR, part: DecisionIR, pair: tuple[int, int]) -> bool:
    if not 0 <= pair[0] < len(part.cells):
        return False
    mine, theirs = part.cells[pair[0]], whole.cells[pair[1]]
    return all(
        0 <= at < len(part.diagrams) and part.diagrams[at] == whole.diagrams[other]
        for at, other in ((mine.action, theirs.action), (mine.rule, theirs.rule))
    )
