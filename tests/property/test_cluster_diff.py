# SPDX-License-Identifier: Apache-2.0
"""The diff over a cluster agrees with the reference semantics on every flow, both ways."""

import random
from dataclasses import replace

import pytest
import z3
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policyc.ir.results.diff import DifferenceKind
from policyc.ir.universe import Universe
from policyc.verifier.cluster.connection import ClusterConnection
from policyc.verifier.cluster.diff import Change, diff_cluster
from policyc.verifier.diff.difference_terms import is_kind
from tests.property.cluster_flows import (
    check,
)
from tests.property.length import examples
from tests.property.policy_mutations import mutated
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


@settings(max_examples=examples(120, 6), deadline=None)
@given(SEEDS)
def test_a_solver_finds_the_same_kinds_of_changes_among_few_pods_of_unknown_address(
    seed: int,
) -> None:
    """With one pod or two, a flow that nothing else can have is not hidden by others of its kind."""
    rng = random.Random(seed)
    case = tiered_case(rng, max_tiers=2, max_policies=3)
    assume(case.universe.endpoints and any(tier.policies for tier in case.policies.tiers))
    pods = rng.sample(case.universe.endpoints, min(len(case.universe.endpoints), rng.randint(1, 2)))
    few = (
        replace(pod, addresses=(), addresses_known=False, is_template=rng.random() < 0.3)
        for pod in pods
    )
    universe = Universe(tuple(few), case.universe.nodes[: rng.randint(0, 1)])
    sets = (case.policies, mutated(rng, case.policies))
    found = diff_cluster(Change(sets[0], universe), Change(sets[1], universe))
    connection = ClusterConnection(sets, universe)
    solver = z3.Solver()
    solver.add(connection.is_possible())
    kinds = {
        kind for kind in DifferenceKind if solver.check(is_kind(connection, kind, False)) == z3.sat
    }
    assert kinds == set(found.kinds)
