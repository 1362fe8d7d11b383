# SPDX-License-Identifier: Apache-2.0
"""The symbolic comparison of two policy sets agrees with the reference semantics, both ways."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.ir.universe import Flow
from policyc.verifier.symbolic.policy_equivalence import (
    Difference,
    Same,
    compare,
)
from tests.property.cases import Case
from tests.property.length import examples
from tests.property.policy_mutations import (
    answers,
    mutated,
    with_notes,
)
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)


def flows_of(case: Case, rng: random.Random, count: int) -> list[Flow]:
    return [
        replace(flow, source_port=rng.choice((None, 1, 53, 1023, 40000)))
        if flow.service.number in (6, 17, 132)
        else flow
        for flow in case.flows(rng, count)
        if flow.src != flow.dst
    ]


def check(seed: int) -> None:
    rng = random.Random(seed)
    case = tiered_case(rng, max_tiers=3, max_policies=3)
    if not case.policies.tiers:
        return
    before = with_notes(rng, case.policies)
    after = mutated(rng, before)
    outcome = compare(before, after)
    differing = [f for f in flows_of(case, rng, 150) if answers(before, f) != answers(after, f)]
    if isinstance(outcome, Same):
        assert not differing, f"{differing[0]}"
    else:
        assert isinstance(outcome, Difference)
        assert answers(before, outcome.flow) != answers(after, outcome.flow)


@settings(max_examples=examples(80, 16), deadline=None)
@given(SEEDS)
def test_same_means_no_flow_differs_and_a_difference_is_a_flow(seed: int) -> None:
    check(seed)


@settings(max_examples=examples(30), deadline=None)
@given(SEEDS)
def test_a_policy_set_equals_itself(seed: int) -> None:
    case = tiered_case(random.Random(seed), max_tiers=3, max_policies=3)
    assert isinstance(compare(case.policies, case.policies), Same)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(SEEDS)
def test_same_means_no_flow_differs_at_length(seed: int) -> None:
    check(seed)
