# SPDX-License-Identifier: Apache-2.0
"""A folded diagram says of every key what going through the tiers rule by rule says."""

import random
from itertools import pairwise

from policyc.ir.decision import NOT_ISOLATED_RULE, leaf_of
from policyc.ir.fold import LAST_KEY, FoldTier, Matched, fold
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Action

KEYS = (0, 1, 2, 3, 5, 80, 81, 65535, 65536, 65537, LAST_KEY - 1, LAST_KEY)
ACTIONS = (Action.ALLOW, Action.DENY, Action.REJECT, Action.PASS)


def random_tiers(rng: random.Random) -> list[FoldTier]:
    ids = iter(range(2, 100))

    def match() -> Matched:
        spans = [sorted(rng.choices(KEYS, k=2)) for _ in range(rng.choice((1, 1, 2, 3)))]
        return Matched(next(ids), rng.choice(ACTIONS), IntervalSet.of((a, b) for a, b in spans))

    return [
        FoldTier(tuple(match() for _ in range(rng.randrange(7))), rng.choice((None, next(ids))))
        for _ in range(rng.randrange(5))
    ]


def deciding(tiers: list[FoldTier], key: int) -> int:
    for tier in tiers:
        match = next((match for match in tier.matched if key in match.services), None)
        if match is not None and match.action is not Action.PASS:
            return match.rule
        if match is None and tier.default_rule is not None:
            return tier.default_rule
    return NOT_ISOLATED_RULE


def test_the_diagram_says_of_every_key_who_decides() -> None:
    for seed in range(2000):
        tiers = random_tiers(random.Random(seed))
        diagram = fold(tiers)
        lows, leaves = zip(*diagram, strict=True)
        assert lows[0] == 0
        assert list(lows) == sorted(set(lows))
        assert all(one != other for one, other in pairwise(leaves))
        for key in {*KEYS, *lows, *(low - 1 for low in lows if low)}:
            assert leaf_of(diagram, key) == deciding(tiers, key), (seed, key)
