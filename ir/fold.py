# SPDX-License-Identifier: Apache-2.0
"""Fold the rules that apply to one (row, column) into a rule diagram, tier by tier.

This is the only place where first match, deny-wins, Pass and default denies become a function of the
service key. `runtime/policy/fold.py` is its twin on the node, for signatures that first appear there.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

from policyc.ir.decision import NOT_ISOLATED_RULE, Diagram
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Action
from policyc.ir.services import ALL_SERVICES


@dataclass(frozen=True, slots=True)
class Matched:
    """A rule whose peers match: its id, action, and the services it covers here.

    `makes_note`: a flow that the rule matches and does not decide is noted.
    """

    rule: int
    action: Action
    services: IntervalSet
    makes_note: bool = False


@dataclass(frozen=True, slots=True)
class FoldTier:
    """One tier at one (row, column): matching rules in evaluation order, then the default.

    `default_rule` is the id that decides flows that no rule matched; None if they pass on.
    """

    matched: tuple[Matched, ...]
    default_rule: int | None


Noted = Callable[[int, int], int]
"""(an id, a rule that makes a note) -> the id of the same decision with that note first."""


def fold(tiers: Iterable[FoldTier], noted: Noted) -> Diagram:
    """The rule diagram: for each service key the id of the deciding rule.

    Painted from the last tier to the first, and from a tier's last rule to its first, each over the
    later ones. PASS exposes the decision of the later tiers. A rule after which evaluation continues
    changes only the notes.
    """
    behind = _Painting([0], [NOT_ISOLATED_RULE])
    for tier in reversed(tuple(tiers)):
        if tier.default_rule is None:
            painting = _Painting(behind.lows.copy(), behind.leaves.copy())
        else:
            painting = _Painting([0], [tier.default_rule])
        for match in reversed(tier.matched):
            for lo, hi in match.services:
                if not match.action.goes_on and match.action is not Action.PASS:
                    painting.put(lo, hi, (lo,), (match.rule,))
                    continue
                after = painting if match.action.goes_on else behind
                lows, leaves = after.between(lo, hi)
                if match.makes_note:
                    leaves = [noted(leaf, match.rule) for leaf in leaves]
                painting.put(lo, hi, lows, leaves)
        behind = painting
    return behind.steps()


LAST_KEY = ALL_SERVICES.spans[-1][1]


@dataclass(frozen=True, slots=True)
class _Painting:
    """Steps as their lowest keys and their leaves; neighbours may have equal leaves."""

    lows: list[int]
    leaves: list[int]

    def between(self, lo: int, hi: int) -> tuple[list[int], list[int]]:
        """The steps from lo to hi, the first at lo."""
        first, end = bisect_right(self.lows, lo), bisect_right(self.lows, hi)
        return [lo, *self.lows[first:end]], self.leaves[first - 1 : end]

    def put(self, lo: int, hi: int, lows: Sequence[int], leaves: Sequence[int]) -> None:
        """Replace the steps from lo to hi by these, the first at lo."""
        first = bisect_left(self.lows, lo)
        if hi < LAST_KEY:
            end = bisect_right(self.lows, hi + 1)
            lows, leaves = (*lows, hi + 1), (*leaves, self.leaves[end - 1])
            self.lows[first:end], self.leaves[first:end] = lows, leaves
        else:
            self.lows[first:], self.leaves[first:] = lows, leaves

    def steps(self) -> Diagram:
        steps: list[tuple[int, int]] = []
        last = None
        for low, leaf in zip(self.lows, self.leaves, strict=True):
            if leaf != last:
                steps.append((low, leaf))
                last = leaf
        return tuple(steps)
