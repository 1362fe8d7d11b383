# SPDX-License-Identifier: Apache-2.0
"""The diff over a cluster agrees with the reference semantics on every flow, both ways."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.verifier.cluster.diff import Change, diff_cluster
from tests.property.cluster_flows import (
    check,
)
from tests.property.length import examples
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)


@settings(max_examples=examples(150, 2), deadline=None)
@given(SEEDS)
def test_a_flow_is_in_a_region_where_its_verdict_changed_and_nowhere_else(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(SEEDS)
def test_a_flow_is_in_a_region_where_its_verdict_changed_at_length(seed: int) -> None:
    check(seed)


@settings(max_examples=examples(60, 2), deadline=None)
@given(SEEDS)
def test_a_policy_set_is_equal_to_itself_in_another_order(seed: int) -> None:
    rng = random.Random(seed)
    case = tiered_case(rng, max_tiers=3, max_policies=3)
    found = diff_cluster(Change(case.policies, case.universe), Change(case.policies, case.universe))
    assert found.differences == ()
