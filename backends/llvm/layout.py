# SPDX-License-Identifier: Apache-2.0
"""The Decision IR as arrays, and the choice between code and tables for each part.

Rows that decide alike are stored once, and so are columns. Only the rule layer is stored, because a rule
implies its action (this module checks that the action layer agrees). Costs, measured at 1000 policies on
one core (tests/bench/native.py): a table in cache is cheaper than an unpredictable branch. So only very
small parts become code, and only parts larger than the caches use a search.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from policyc.backends.llvm.batch import Special, Words, words
from policyc.ir.decide import action_diagram, action_leaf
from policyc.ir.decision import DecisionIR, Diagram, RuleEntry
from policyc.ir.errors import InternalError
from policyc.ir.policy import Action, Direction
from policyc.ir.services import ALL_SERVICES

OWN_NODE = 1 << 31
"""A flag of the word of a rule that also denies flows that a pod's own node generates (A22)."""
N_KEYS = ALL_SERVICES.spans[-1][1] + 1
Table = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of code and of dense tables.

    `code_steps`: the number of steps, of all diagrams together, that may become branches.
    `code_segments`: the number of service runs that branches may distinguish. `code_addresses`: the same
    for address runs of one family. `dense_bytes`: the size limit of the leaves of every diagram for
    every run of services.
    """

    code_steps: int = 16
    code_segments: int = 4
    code_addresses: int = 16
    dense_bytes: int = 16 << 20


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Code:
    """The diagrams as code: number -> steps (service key, verdict word)."""

    trees: dict[int, Diagram]


@dataclass(frozen=True, slots=True)
class Dense:
    """A word for each (diagram, segment of services). `starts`: the first key of each segment."""

    starts: tuple[int, ...]
    leaves: Table


@dataclass(frozen=True, slots=True)
class Searched:
    """The steps of diagram d are those from `first[d]` to before `first[d + 1]`."""

    first: Words
    lows: Words
    leaves: Words


Leaves = Code | Dense | Searched


@dataclass(frozen=True, slots=True)
class Grid:
    """One direction: `cells[row_of[row], column_of[column]]` is a diagram's number.

    The last row of `cells` is the row of ends that are not endpoints.
    """

    row_of: Words
    column_of: Words
    cells: Table

    @property
    def outside(self) -> int:
        """The row of ends that are not endpoints."""
        return len(self.cells) - 1


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything that native code reads, except the ends of flows."""

    grids: dict[Direction, Grid]
    leaves: Leaves
    n_rules: int
    binds_own_node: bool = False
    """Some words have OWN_NODE: rules that also deny flows that a pod's own node generates (A22)."""


def narrow(values: Sequence[int] | npt.NDArray[Any]) -> Table:
    """The numbers in the narrowest type that holds all of them."""
    found = np.asarray(values, dtype=np.uint32)
    most = int(found.max(initial=0))
    kind = np.uint8 if most < 1 << 8 else np.uint16 if most < 1 << 16 else np.uint32
    return np.ascontiguousarray(found, dtype=kind)


def lay_out(decision: DecisionIR, limits: Limits = DEFAULT_LIMITS) -> Layout:
    """Choose for a Decision IR. InternalError if its two layers disagree."""
    _check_layers(decision)
    n_rules = len(decision.rules)
    used = sorted({cell.rule for cell in decision.cells})
    number = {diagram: at for at, diagram in enumerate(used)}
    diagrams = [_with_words(decision, decision.diagrams[at]) for at in used]
    outside = len(diagrams)
    diagrams.append(((0, Special.OUTSIDE.word(n_rules)),))
    of_cell = np.array([number[cell.rule] for cell in decision.cells], dtype=np.uint32)
    grids = {d: _grid(decision.table(d), of_cell, outside) for d in Direction}
    binds_own_node = any(entry.action is Action.DENY_OWN_NODE for entry in decision.rules)
    return Layout(grids, _leaves(diagrams, limits), n_rules, binds_own_node)


def _check_layers(decision: DecisionIR) -> None:
    leaves, actions = list(map(action_leaf, decision.rules)), {}
    for cell in dict.fromkeys(decision.cells):
        if cell.rule not in actions:
            actions[cell.rule] = action_diagram(decision.diagrams[cell.rule], leaves)
        if actions[cell.rule] != decision.diagrams[cell.action]:
            raise InternalError("the layers of the Decision IR disagree")


def _with_words(decision: DecisionIR, diagram: Diagram) -> Diagram:
    """The diagram with verdict words for rule ids."""
    rules = decision.rules
    return tuple((lo, _word(rules[rule], rule)) for lo, rule in diagram)


def _word(entry: RuleEntry, rule: int) -> int:
    own = OWN_NODE if entry.action is Action.DENY_OWN_NODE else 0
    return own | rule << 1 | (not entry.action.is_deny)


def _grid(table: tuple[tuple[int, ...], ...], of_cell: Words, outside: int) -> Grid:
    """Equal rows once, then equal columns once."""
    row_of, rows = _interned(table)
    dense = np.empty((len(rows), len(rows[0])), dtype=np.uint32)
    for out, row in zip(dense, rows, strict=True):
        out[:] = of_cell[array("I", row)]  # numpy reads an array in half the time of a tuple
    columns = np.ascontiguousarray(dense.T)
    column_of = words(_interned(column.tobytes() for column in columns)[0])
    at = np.unique(column_of, return_index=True)[1]  # the first index of each number
    cells = np.vstack([dense[:, at], np.full((1, len(at)), outside, dtype=np.uint32)])
    return Grid(words(row_of), column_of, narrow(cells))


def _interned(items: Iterable[Any]) -> tuple[list[int], list[Any]]:
    """(number of each, the distinct ones in order of number)."""
    numbers: dict[Any, int] = {}
    found = [numbers.setdefault(item, len(numbers)) for item in items]
    return found, list(numbers)


def _leaves(diagrams: list[Diagram], limits: Limits) -> Leaves:
    n_steps = sum(map(len, diagrams))
    if n_steps <= limits.code_steps:
        return Code(dict(enumerate(diagrams)))
    starts = sorted({lo for diagram in diagrams for lo, _ in diagram})
    width = narrow([leaf for diagram in diagrams for _, leaf in diagram]).itemsize
    if len(diagrams) * len(starts) * width <= limits.dense_bytes:
        return Dense(tuple(starts), narrow(_filled(diagrams, starts)))
    first = np.cumsum([0, *map(len, diagrams)])
    lows = [lo for diagram in diagrams for lo, _ in diagram]
    return Searched(
        words(first), words(lows), words([leaf for diagram in diagrams for _, leaf in diagram])
    )


def _filled(diagrams: list[Diagram], starts: list[int]) -> Words:
    at = {start: index for index, start in enumerate(starts)}
    out = np.empty((len(diagrams), len(starts)), dtype=np.uint32)
    for row, diagram in zip(out, diagrams, strict=True):
        for lo, leaf in diagram:
            row[at[lo] :] = leaf
    return out


def segment_of_key(starts: Sequence[int]) -> Table:
    """Service key -> the number of its segment."""
    lengths = np.diff([*starts, N_KEYS])
    return narrow(np.repeat(np.arange(len(starts)), lengths))
