# SPDX-License-Identifier: Apache-2.0
"""Fold the rules that apply to one (row, column) into a rule diagram, tier by tier.

The one place where first match, deny-wins, Pass and default denies become a function of the service
key. `runtime/tiers.py` is its twin on the node, for signatures first seen there.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from policyc.ir.classes import dataclass
from policyc.ir.decision import NOT_ISOLATED_RULE, Diagram
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Action
from policyc.ir.services import ALL_SERVICES


@dataclass(frozen=True, slots=True)
class Matched:
    """A rule whose peers match: its id, action, and the services it covers here."""

    rule: int
    action: Action
    services: IntervalSet


@dataclass(frozen=True, slots=True)
class FoldTier:
    """One tier at one (row, column): matching rules in deciding order, then the default.

    `default_rule` is the id that decides what no rule matched, None where it goes on.
    """

    matched: tuple[Matched, ...]
    default_rule: int | None


def fold(tiers: Iterable[FoldTier]) -> Diagram:
    """The rule diagram: for each service key the id of the deciding rule.

    A sweep over the keys where some rule begins or ends: between two of them every key meets the same
    rules, and in each tier the first of them counts.
    """
    walk = [_Walk(tier) for tier in tiers]
    begins: dict[int, list[tuple[int, int]]] = {}
    ends: dict[int, list[tuple[int, int]]] = {}
    for at, each in enumerate(walk):
        for index, match in enumerate(each.tier.matched):
            for lo, hi in match.services:
                begins.setdefault(max(lo, 0), []).append((at, index))
                ends.setdefault(hi + 1, []).append((at, index))
    steps: list[tuple[int, int]] = []
    for key in sorted({0, *begins, *ends}):
        if key > LAST_KEY:
            break
        for at, index in ends.get(key, ()):
            walk[at].leave(index)
        for at, index in begins.get(key, ()):
            walk[at].enter(index)
        leaf = _deciding(walk)
        if not steps or steps[-1][1] != leaf:
            steps.append((key, leaf))
    return tuple(steps)


LAST_KEY = ALL_SERVICES.spans[-1][1]


class _Walk:
    """One tier during the sweep: the rules that cover the key at hand, the first on top."""

    def __init__(self, tier: FoldTier) -> None:
        self.tier = tier
        self._heap: list[int] = []
        self._left: set[int] = set()

    def enter(self, index: int) -> None:
        self._left.discard(index)
        heappush(self._heap, index)

    def leave(self, index: int) -> None:
        self._left.add(index)

    def first(self) -> Matched | None:
        while self._heap and self._heap[0] in self._left:
            heappop(self._heap)
        return self.tier.matched[self._heap[0]] if self._heap else None


def _deciding(walk: Sequence[_Walk]) -> int:
    for each in walk:
        match = each.first()
        if match is not None and match.action is not Action.PASS:
            return match.rule
        if match is None and each.tier.default_rule is not None:
            return each.tier.default_rule
    return NOT_ISOLATED_RULE
