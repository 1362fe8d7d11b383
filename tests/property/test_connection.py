# SPDX-License-Identifier: Apache-2.0
"""The joint symbolic connection agrees with the reference semantics, in both directions.

Z3 finds every combination of verdicts that some flow of a small cluster has. Every connection that Z3
finds is a flow with those verdicts (`confirmed` evaluates the semantics again).
"""

import random
from itertools import product

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.ir.policy import Direction, PolicySet
from policyc.ir.semantics import verdict
from policyc.verifier.symbolic.connection import Connection
from policyc.verifier.symbolic.connection_flow import confirmed
from policyc.verifier.symbolic.verdict_terms import ACTIONS
from tests.property.connection_cases import connection_case, flows_of
from tests.property.length import examples

SEEDS = st.integers(min_value=0, max_value=2**32)


def seen_combinations(policies: PolicySet, flows: list[object]) -> dict[tuple[object, ...], object]:
    found = {}
    for flow in flows:
        both = verdict(policies, flow)  # type: ignore[arg-type]
        found[both.egress.action, both.ingress.action] = flow
    return found


def check(seed: int) -> None:
    rng = random.Random(seed)
    case = connection_case(rng, max_tiers=2, max_policies=2)
    seen = seen_combinations(case.policies, list(flows_of(case.universe, rng, 30)))
    connection = Connection((case.policies,))
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(connection.is_possible())
    assert solver.check() == z3.sat
    for wanted in product(ACTIONS, ACTIONS):
        solver.push()
        for direction, action in zip((Direction.EGRESS, Direction.INGRESS), wanted, strict=True):
            solver.add(connection.end(case.policies, direction)[0] == ACTIONS.index(action))
        result = solver.check()
        if result == z3.sat:
            both = confirmed(connection, solver.model()).verdicts[0]
            assert (both.egress.action, both.ingress.action) == wanted
        elif result == z3.unsat:
            assert wanted not in seen, f"{seen[wanted]} was found impossible"
        solver.pop()


@settings(max_examples=examples(40), deadline=None)
@given(SEEDS)
def test_a_combination_of_verdicts_is_possible_if_a_flow_has_it(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@given(SEEDS)
def test_a_combination_of_verdicts_is_possible_if_a_flow_has_it_at_length(seed: int) -> None:
    check(seed)
