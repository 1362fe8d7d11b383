# SPDX-License-Identifier: Apache-2.0
"""What `eval` lets compiled code answer it answers as ever, also where ends are not fully known."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.driver.eval.answers import (
    EndAnswer,
    answer,
)
from policyc.compiler.driver.eval.native_flows import (
    BY_SEMANTICS,
    evaluate_natively,
    why_not_native,
)
from policyc.ir.semantics import EndVerdict
from policyc.ir.universe import Endpoint, Universe
from tests.property.cases import Case
from tests.property.length import examples
from tests.property.native_columns import (
    columns_of,
)
from tests.property.native_flows import (
    ends_of,
    flows_of,
)
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)


def turned(rng: random.Random, endpoint: Endpoint) -> Endpoint:
    """Sometimes in its node's network, or of unknown address."""
    kind = rng.random()
    if kind < 0.15:
        return replace(endpoint, host_network=True)
    if kind < 0.3:
        return replace(endpoint, addresses=(), addresses_known=False, is_template=True)
    return endpoint


def check(seed: int) -> int:
    """Compares every flow that was not left to the semantics; how many there were."""
    rng = random.Random(seed)
    case = tiered_case(rng)
    endpoints = tuple(turned(rng, end) for end in case.universe.endpoints)
    known = tuple(end for end in endpoints if end.addresses_known)
    unknown = [(end, f) for end in endpoints if not end.addresses_known for f in (4, 6)]
    case = Case(case.policies, Universe(known, case.universe.nodes))
    assert not why_not_native(case.policies)
    flows = flows_of(case, rng, [*ends_of(case), *unknown], 80) if known else []
    if not flows:
        return 0
    native = evaluate_natively(case.policies, columns_of(flows))
    compared = 0
    for flow, out, into in zip(flows, native.egress, native.ingress, strict=True):
        assert (out == BY_SEMANTICS) == (into == BY_SEMANTICS)
        if out != BY_SEMANTICS:
            wanted = answer(case.policies, flow, case.universe.nodes)
            found = tuple(said(native.verdicts[at]) for at in (out, into))
            assert found == (wanted.egress, wanted.ingress), f"{flow}"
            assert not wanted.unknown
            compared += 1
    return compared


def said(verdict: EndVerdict) -> EndAnswer:
    return EndAnswer("deny" if verdict.action.is_deny else "allow", verdict.decider)


@settings(max_examples=examples(25, 2), deadline=None)
@given(SEEDS)
def test_compiled_answers_hold_where_ends_are_not_fully_known(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(SEEDS)
def test_compiled_answers_hold_where_ends_are_not_fully_known_at_length(seed: int) -> None:
    check(seed)


def test_most_flows_between_known_ends_are_answered() -> None:
    assert sum(map(check, range(10))) > 200
