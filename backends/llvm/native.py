# SPDX-License-Identifier: Apache-2.0
"""The native evaluator: a Decision IR compiled for this process and evaluated on batches of flows.

The answers are those of `ir/lookup.py: end_decision` at both ends, together with the flows that the
semantics allow before any policy (A22, A23, A26): `ir/semantics.py: verdict` as a whole.
"""

from dataclasses import dataclass, field

import numpy as np

from policyc.backends.llvm.batch import Flows, Special, Verdicts, Words, words
from policyc.backends.llvm.ends import Ends
from policyc.backends.llvm.host import Compiled, compile_module
from policyc.backends.llvm.kernels import write_module
from policyc.backends.llvm.layout import DEFAULT_LIMITS, N_KEYS, Layout, Limits, lay_out
from policyc.backends.llvm.modules import Array
from policyc.ir.decision import DecisionIR, RuleEntry
from policyc.ir.errors import InternalError
from policyc.ir.policy import Direction
from policyc.ir.universe import FAMILIES


@dataclass
class NativeEvaluator:
    """One Decision IR, for the ends that `ends` has at its creation."""

    decision: DecisionIR
    ends: Ends
    limits: Limits = DEFAULT_LIMITS
    layout: Layout = field(init=False)
    _code: Compiled = field(init=False)

    def __post_init__(self) -> None:
        books = {family: self.ends.book(family) for family in FAMILIES}
        self.layout = lay_out(self.decision, self.limits)
        self.n_ends = len(self.ends.placed)
        is_wide = self.ends.is_wide
        module = write_module(self.layout, books, is_wide, self.limits)
        module.tables["ends"] = self.ends.table(self.layout, is_wide)
        self._code = compile_module(module)

    def verdicts(self, flows: Flows) -> Verdicts:
        """The verdicts on flows whose ends are numbers of `ends`, both of one family."""
        count = len(flows)
        _check(flows.src, self.n_ends, count)
        _check(flows.dst, self.n_ends, count)
        _check(flows.service, N_KEYS, count)
        egress, ingress = np.empty(count, np.uint32), np.empty(count, np.uint32)
        allowed = np.empty(count, np.uint8)
        columns: list[Array] = [flows.src, flows.dst, flows.service, egress, ingress, allowed]
        self._code.run("verdicts", count, columns)
        return Verdicts(egress, ingress, allowed)

    def decide(self, direction: Direction, rows: Words, columns: Words, keys: Words) -> Words:
        """The verdict word of one end for each (row, column, service key) of the Decision IR."""
        grid = self.layout.grids[direction]
        count = len(rows)
        _check(rows, len(grid.row_of), count)
        _check(columns, len(grid.column_of), count)
        _check(keys, N_KEYS, count)
        out = np.empty(count, np.uint32)
        given: list[Array] = [grid.row_of[rows], grid.column_of[columns], keys, out]
        self._code.run(f"decide_{direction.value}", count, given)
        return out

    def find4(self, addresses: Words) -> Words:
        """The ends of raw IPv4 addresses."""
        out = np.empty(len(addresses), np.uint32)
        self._code.run("find4", len(addresses), [words(addresses), out])
        return out

    def find6(self, highs: Array, lows: Array) -> Words:
        """The ends of raw IPv6 addresses, given as their high and low 64 bits."""
        if len(highs) != len(lows):
            raise InternalError("an IPv6 address has two halves")
        out = np.empty(len(highs), np.uint32)
        halves = [np.ascontiguousarray(half, dtype=np.uint64) for half in (highs, lows)]
        self._code.run("find6", len(highs), [*halves, out])
        return out

    def entry(self, word: int) -> RuleEntry:
        """The entry of the rule that a verdict word names; the default if no rule gives it."""
        rule = word >> 1
        return self.decision.rules[rule if rule < self.layout.n_rules else 0]

    def special(self, word: int) -> Special | None:
        """The reason why a verdict word needs no rule, if it needs none."""
        at = (word >> 1) - self.layout.n_rules
        return Special(at + 1) if at >= 0 else None


def _check(column: Words, limit: int, count: int) -> None:
    """Native code reads without bounds checks, so invalid numbers must be refused here."""
    if column.dtype != np.uint32 or not column.flags.c_contiguous or len(column) != count:
        raise InternalError("a batch has columns of 32 bits, side by side and equally long")
    if count and int(column.max()) >= limit:
        raise InternalError(f"a batch names number {int(column.max())} of {limit}")
