# SPDX-License-Identifier: Apache-2.0
"""A folded diagram equals the evaluation of the tiers, rule by rule, for every key."""

import random
from itertools import pairwise

from policyc.ir.decision import NOT_ISOLATED_RULE, leaf_of
from policyc.ir.fold import LAST_KEY, FoldTier, Matched, fold
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Action

KEYS = (0, 1, 2, 3, 5, 80, 81, 65535, 65536, 65537, LAST_KEY - 1, LAST_KEY)
ACTIONS = tuple(Action)
Decided = tuple[int, tuple[int, ...]]
"""The rule that decides, and those before it that make notes."""


def random_tiers(rng: random.Random) -> list[FoldTier]:
    ids = iter(range(2, 100))

    def match() -> Matched:
        spans = [sorted(rng.choices(KEYS, k=2)) for _ in range(rng.choice((1, 1, 2, 3)))]
        action, services = rng.choice(ACTIONS), IntervalSet.of((a, b) for a, b in spans)
        is_passed_and_noted = action is Action.PASS and rng.random() < 0.3
        return Matched(next(ids), action, services, action.goes_on or is_passed_and_noted)

    return [
        FoldTier(tuple(match() for _ in range(rng.randrange(7))), rng.choice((None, next(ids))))
        for _ in range(rng.randrange(5))
    ]


def deciding(tiers: list[FoldTier], key: int) -> Decided:
    notes: list[int] = []
    for tier in tiers:
        matched = [match for match in tier.matched if key in match.services]
        ends = [match for match in matched if not match.action.goes_on]
        met = matched[: matched.index(ends[0]) + 1] if ends else matched
        notes += [match.rule for match in met if match.makes_note]
        if ends and ends[0].action is not Action.PASS:
            return ends[0].rule, tuple(notes)
        if not ends and tier.default_rule is not None:
            return tier.default_rule, tuple(notes)
    return NOT_ISOLATED_RULE, tuple(notes)


def test_the_diagram_has_the_deciding_rule_of_every_key() -> None:
    for seed in range(2000):
        tiers = random_tiers(random.Random(seed))
        numbers: dict[Decided, int] = {}

        def noted(rule: int, by: int, numbers: dict[Decided, int] = numbers) -> int:
            before = next((found for found, at in numbers.items() if at == rule), (rule, ()))
            return numbers.setdefault((before[0], (by, *before[1])), 1000 + len(numbers))

        diagram = fold(tiers, noted)
        lows, leaves = zip(*diagram, strict=True)
        assert lows[0] == 0
        assert list(lows) == sorted(set(lows))
        assert all(one != other for one, other in pairwise(leaves))
        for key in {*KEYS, *lows, *(low - 1 for low in lows if low)}:
            rule, notes = deciding(tiers, key)
            wanted = numbers[rule, notes] if notes else rule
            assert leaf_of(diagram, key) == wanted, (seed, key)
