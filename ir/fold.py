# SPDX-License-Identifier: Apache-2.0
"""Fold the rules that apply to one (row, column) into a rule diagram, tier by tier.

The one place where first match, deny-wins, Pass and default denies become a function of the service
key. `runtime/tiers.py` is its twin on the node, for signatures first seen there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    """The rule diagram: for each service key the id of the deciding rule."""
    undecided = ALL_SERVICES
    decided: list[tuple[IntervalSet, int]] = []
    for tier in tiers:
        passed = IntervalSet()
        for match in tier.matched:
            hit = undecided & match.services
            if not hit:
                continue
            undecided = undecided - hit
            if match.action is Action.PASS:
                passed = passed | hit
            else:
                decided.append((hit, match.rule))
        if tier.default_rule is not None and undecided:
            decided.append((undecided, tier.default_rule))
            undecided = IntervalSet()
        undecided = undecided | passed
    if undecided:
        decided.append((undecided, NOT_ISOLATED_RULE))
    return to_diagram(decided)


def to_diagram(regions: Sequence[tuple[IntervalSet, int]]) -> Diagram:
    """Disjoint regions that cover every key, as steps; neighbours with one leaf are merged."""
    steps: list[tuple[int, int]] = []
    for lo, leaf in sorted((lo, leaf) for keys, leaf in regions for lo, _ in keys):
        if not steps or steps[-1][1] != leaf:
            steps.append((lo, leaf))
    return tuple(steps)
