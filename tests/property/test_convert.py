# SPDX-License-Identifier: Apache-2.0
"""Whatever a target of `convert` writes is read back as what it was; the rest is refused, by rule."""

import random
from dataclasses import replace
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.backends.policies.target import InexpressibleError
from policyc.compiler.driver.compare.convert import (
    TARGETS,
    to_yaml,
)
from policyc.compiler.frontend import ReadOptions, StreamSource, read_policies
from policyc.ir.policy import NEVER, NO_ENDPOINT, PolicySet
from policyc.verifier.symbolic.policy_equivalence import (
    Same,
    compare,
)
from tests.property.admin_cases import admin_case
from tests.property.calico_cases import calico_case
from tests.property.cases import random_case
from tests.property.length import examples
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)
BY_TARGET = pytest.mark.parametrize("target", list(TARGETS))


def read_back(policies: PolicySet, target: str) -> PolicySet:
    """Written, and read again; without the hosts that Calico's global policies could select."""
    text = to_yaml(TARGETS[target](policies))
    found = read_policies([StreamSource(BytesIO(text.encode()))], ReadOptions(allow_empty=True))
    return PolicySet(
        tuple(
            replace(
                tier,
                policies=tuple(
                    p if p.subject == NO_ENDPOINT else replace(p, hosts=NEVER)
                    for p in tier.policies
                ),
            )
            for tier in found.policies.tiers
        )
    )


@BY_TARGET
@settings(max_examples=examples(25), deadline=None)
@given(seed=SEEDS)
def test_network_policies_become_the_same_in_every_api(target: str, seed: int) -> None:
    policies = random_case(random.Random(seed)).policies
    assert isinstance(compare(policies, read_back(policies, target)), Same)


@pytest.mark.parametrize("target", [t for t in TARGETS if t != "networkpolicy"])
@settings(max_examples=examples(30), deadline=None)
@given(seed=SEEDS)
def test_cluster_wide_policies_become_the_same(target: str, seed: int) -> None:
    policies = admin_case(random.Random(seed))
    assert isinstance(compare(policies, read_back(policies, target)), Same)


@BY_TARGET
@settings(max_examples=examples(60), deadline=None)
@given(seed=SEEDS)
def test_any_policy_set_becomes_the_same_or_is_refused_by_rule(target: str, seed: int) -> None:
    policies = tiered_case(random.Random(seed), max_tiers=3, max_policies=3).policies
    try:
        again = read_back(policies, target)
    except InexpressibleError as refused:
        assert refused.found
        assert all(each.why and each.name for each in refused.found)
        return
    assert isinstance(compare(policies, again), Same)


def test_most_policies_convert_to_calico_with_the_same_meaning() -> None:
    n_written, asked = 0, examples(60, 2)
    for seed in range(asked):
        policies = calico_case(random.Random(seed))
        try:
            again = read_back(policies, "calico")
        except InexpressibleError:
            continue
        assert isinstance(compare(policies, again), Same), f"seed {seed}"
        n_written += bool(again.tiers)
    assert n_written >= asked * 3 // 5
