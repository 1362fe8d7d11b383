# SPDX-License-Identifier: Apache-2.0
"""A tier in explicit form gives every flow the same action as before."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.ir.passes.explicit import (
    allows_apart,
    explicit,
)
from policyc.ir.policy import Action, PolicySet, TierMode
from policyc.verifier.symbolic.policy_equivalence import (
    Same,
    compare,
)
from tests.property.length import examples
from tests.property.tiered_cases import tiered_case


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_an_explicit_tier_means_the_same(seed: int) -> None:
    policies = tiered_case(random.Random(seed), max_tiers=3, max_policies=3).policies
    plain = PolicySet(tuple(map(explicit, policies.tiers)))
    for tier in plain.tiers:
        assert tier.mode is TierMode.FIRST_MATCH
        assert tier.unmatched is Action.PASS
        assert not any(policy.isolates for policy in tier.policies)
    assert isinstance(compare(policies, plain), Same)


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_a_tier_keeps_its_meaning_when_its_allows_are_separated(seed: int) -> None:
    policies = tiered_case(random.Random(seed), max_tiers=3, max_policies=3).policies
    apart = PolicySet(tuple(part for tier in policies.tiers for part in allows_apart(tier)))
    assert isinstance(compare(policies, apart), Same)
