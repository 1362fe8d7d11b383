# SPDX-License-Identifier: Apache-2.0
"""Rules that are called covered may be removed, by the comparison of whole policy sets."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.ir.bounds import RulePlace
from policyc.ir.policy import PolicySet
from policyc.verifier.redundancy.covers import Covers
from policyc.verifier.redundancy.symbolic import places_of_rules, without
from policyc.verifier.symbolic.policy_equivalence import Difference, Same, compare
from tests.property.length import examples
from tests.property.policy_mutations import with_notes
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)


def policies_of(rng: random.Random) -> PolicySet:
    return with_notes(rng, tiered_case(rng, max_tiers=2, max_policies=4).policies)


def is_same(policies: PolicySet, less: PolicySet) -> bool:
    found = compare(policies, less)
    assert isinstance(found, Same | Difference)
    return isinstance(found, Same)


@settings(max_examples=examples(400, 40), deadline=None)
@given(SEEDS)
def test_covered_rules_change_nothing_alone_and_together(seed: int) -> None:
    rng = random.Random(seed)
    policies = policies_of(rng)
    covers, places = Covers(policies), list(places_of_rules(policies).values())
    for place in filter(covers.changes_nothing, places):
        assert is_same(policies, without(policies, [place]))
    chosen = rng.sample(places, rng.randint(0, len(places)))
    assert is_same(policies, without(policies, covers.removable(chosen)))


def test_most_rules_that_change_nothing_are_covered() -> None:
    met: Counter[str] = Counter()
    for seed in range(6):
        policies = policies_of(random.Random(seed))
        covers = Covers(policies)
        for place in places_of_rules(policies).values():
            met["unreached"] += not covers.is_reached(place)
            met["changeless"] += covers.changes_nothing(place)
            met["useless"] += is_useless(policies, place)
    assert met["unreached"] > 1
    assert met["changeless"] - met["unreached"] > 1
    assert met["changeless"] > met["useless"] / 2


def is_useless(policies: PolicySet, place: RulePlace) -> bool:
    return is_same(policies, without(policies, [place]))
