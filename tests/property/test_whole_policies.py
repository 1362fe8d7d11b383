# SPDX-License-Identifier: Apache-2.0
"""The policies that `check` would delete change nothing, and every copy of a policy is among them."""

import os
import random
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.driver.check.answers import CheckOptions
from policyc.compiler.driver.check.symbolic import useless_anywhere
from policyc.compiler.driver.check.whole_policies import useless_policies
from policyc.compiler.driver.compile.compile import Read
from policyc.compiler.frontend.read import PolicyInput
from policyc.ir.policy import NEVER, Policy, PolicySet
from policyc.verifier.symbolic.policy_equivalence import Same, compare
from tests.property.length import AT_LENGTH, examples
from tests.property.tiered_cases import tiered_case

SIZE = 3 if os.environ.get(AT_LENGTH) else 2
"""The most tiers, and policies of a tier: with three an example takes seconds."""
SEEDS = st.integers(min_value=0, max_value=2**32)


def with_copies(rng: random.Random, policies: PolicySet) -> PolicySet:
    """Some policies twice in their tier, the second time under another name."""
    tiers = []
    for tier in policies.tiers:
        copied = [
            replace(policy, name=f"{policy.name}-copy")
            for policy in tier.policies
            if rng.random() < 0.5
        ]
        tiers.append(replace(tier, policies=(*tier.policies, *copied)))
    return PolicySet(tuple(tiers))


def names(policies: PolicySet) -> list[str]:
    return [policy.name for tier in policies.tiers for policy in tier.policies]


def contents(policies: PolicySet) -> Counter[Policy]:
    """The policies without their names."""
    return Counter(replace(p, name="") for tier in policies.tiers for p in tier.policies)


def without(policies: PolicySet, policy: Policy) -> PolicySet:
    return PolicySet(
        tuple(
            replace(tier, policies=tuple(each for each in tier.policies if each is not policy))
            for tier in policies.tiers
        )
    )


def check(seed: int) -> None:
    rng = random.Random(seed)
    policies = with_copies(rng, tiered_case(rng, max_tiers=SIZE, max_policies=SIZE).policies)
    options = CheckOptions(True)
    answers, tried = useless_anywhere(policies, options, lambda _: None)
    read = Read(PolicyInput(policies), None)
    found = useless_policies(read, answers, tried, options, lambda _: None)
    assert not found.undecided
    gone = Counter(each.policy.name for each in found.found)
    assert Counter(names(found.left)) == Counter(names(policies)) - gone
    assert isinstance(compare(policies, found.left), Same), f"seed {seed}"
    for each in found.found:
        alone = without(policies, each.policy)
        assert isinstance(compare(policies, alone), Same), f"seed {seed}: {each.policy.title}"
    for content, number in contents(found.left).items():
        assert number == 1 or content.hosts != NEVER, f"seed {seed}: a copy is left"


@settings(max_examples=examples(60), deadline=None)
@given(SEEDS)
def test_deleted_policies_change_nothing_and_no_copy_is_left(seed: int) -> None:
    check(seed)
