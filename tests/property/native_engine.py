# SPDX-License-Identifier: Apache-2.0
"""The native evaluator as an engine of the property tests: one case compiled, many flows at once."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from policyc.backends.llvm.batch import Flows, Special, Words, words
from policyc.backends.llvm.ends import Ends
from policyc.backends.llvm.layout import Limits
from policyc.backends.llvm.native import NativeEvaluator
from policyc.ir.decision import DecisionIR, RuleEntry
from policyc.ir.lookup import entry_of
from policyc.ir.policy import Direction
from policyc.ir.semantics import (
    FROM_ITS_NODE,
    NEIGHBOURS,
    OUTSIDE,
    TO_ITSELF,
    EndVerdict,
)
from policyc.ir.universe import End, Endpoint, Flow

LIMITS = (
    Limits(code_steps=1 << 30, code_segments=1 << 30, code_addresses=1 << 30),  # all of it code
    Limits(code_steps=0, code_segments=0, code_addresses=0),  # dense tables
    Limits(code_steps=0, code_segments=0, code_addresses=0, dense_bytes=0),  # searched tables
    Limits(code_steps=0, code_segments=1 << 30),  # a tree before a dense table
    Limits(),
)
_SPECIALS = {
    Special.OUTSIDE: OUTSIDE,
    Special.TO_ITSELF: TO_ITSELF,
    Special.NEIGHBOURS: NEIGHBOURS,
    Special.FROM_ITS_NODE: FROM_ITS_NODE,
}
Found = RuleEntry | EndVerdict


def wanted_of(verdict: EndVerdict) -> Found:
    """A verdict of the semantics as the engine says it: a special one as it is, else a rule entry."""
    return verdict if verdict in _SPECIALS.values() else entry_of(verdict)


class NativeEngine:
    """One compiled case. Ends get their numbers when the engine is made."""

    def __init__(
        self, decision: DecisionIR, ends: Iterable[tuple[End, int]], limits: Limits
    ) -> None:
        self.ends = Ends(decision)
        self.numbers: dict[tuple[End, int], int] = {}
        for end, family in ends:
            number = self.ends.add(end, family)
            assert number is not None, f"{end} has no place"
            self.numbers[end, family] = number
        self.native = NativeEvaluator(decision, self.ends, limits)

    def verdicts(self, flows: Sequence[Flow]) -> list[tuple[Found, Found, bool]]:
        """Both ends' answers and whether the connection is allowed, flow by flow."""
        found = self.native.verdicts(
            Flows(
                words([self.numbers[flow.src, flow.family] for flow in flows]),
                words([self.numbers[flow.dst, flow.family] for flow in flows]),
                words([flow.service.key for flow in flows]),
            )
        )
        return [
            (self._said(out), self._said(into), bool(allowed))
            for out, into, allowed in zip(
                found.egress.tolist(), found.ingress.tolist(), found.allowed.tolist(), strict=True
            )
        ]

    def _said(self, word: int) -> Found:
        special = self.native.special(word)
        if special is not None:
            assert word & 1
            return _SPECIALS[special]
        entry = self.native.entry(word)
        assert entry.action.is_deny is not bool(word & 1)
        return entry


def expand(seed: int, ends: Sequence[int], keys: Sequence[int], count: int) -> Flows:
    """Many flows from one seed: any of the ends, services at the borders and anywhere."""
    rng = np.random.default_rng(seed)
    chosen = np.array(ends, dtype=np.uint32)
    near = np.array(keys, dtype=np.int64)[rng.integers(0, len(keys), count)]
    near += rng.integers(-1, 2, count)
    anywhere = rng.integers(0, 0x50100, count)
    services = np.where(rng.random(count) < 0.7, np.clip(near, 0, 0x500FF), anywhere)
    return Flows(
        chosen[rng.integers(0, len(chosen), count)],
        chosen[rng.integers(0, len(chosen), count)],
        words(services),
    )


def by_numpy(decision: DecisionIR, ends: Ends, flows: Flows, direction: Direction) -> Words:
    """Verdict words of one end from the Decision IR itself, diagram by diagram; -1 rows are outside.

    Another way to the same answer: no table that the compiled code reads.
    """
    is_out = direction is Direction.EGRESS
    subject, peer = (flows.src, flows.dst) if is_out else (flows.dst, flows.src)
    rows = np.array([-1 if end.row is None else end.row for end in ends.placed])[subject]
    homes, nodes = (np.array([getattr(e, f) for e in ends.placed]) for f in ("home", "node"))
    columns = np.where(
        homes[subject] == nodes[peer],
        np.array([end.near_column for end in ends.placed])[peer],
        np.array([end.column for end in ends.placed])[peer],
    )
    out: npt.NDArray[np.uint32] = np.full(
        len(flows), Special.OUTSIDE.word(len(decision.rules)), dtype=np.uint32
    )
    inside = np.flatnonzero(rows >= 0)
    cells = np.array(decision.table(direction))[rows[inside], columns[inside]]
    for cell in np.unique(cells):
        mine = inside[cells == cell]
        steps = decision.diagrams[decision.cells[cell].rule]
        at = np.searchsorted([lo for lo, _ in steps], flows.service[mine], side="right") - 1
        rules = np.array([rule for _, rule in steps], dtype=np.uint32)[at]
        denied = np.array([entry.action.is_deny for entry in decision.rules])
        out[mine] = rules << 1 | ~denied[rules]
    return out


def with_hosts_network(rng: random.Random, endpoint: Endpoint) -> Endpoint:
    """Now and then a pod in the network of its node."""
    return replace(endpoint, host_network=True) if rng.random() < 0.15 else endpoint
