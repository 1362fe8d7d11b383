# SPDX-License-Identifier: Apache-2.0
"""Reference semantics == Decision IR, on random policy sets, endpoints and flows."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.ir.decide import decide
from policyc.ir.lookup import end_decision, entry_of
from policyc.ir.partition import partition
from policyc.ir.policy import Direction
from policyc.ir.semantics import end_verdict
from policyc.ir.vocabulary import vocabulary_of
from tests.property.cases import random_case
from tests.property.length import examples


@settings(max_examples=examples(150, 2))
@given(st.integers(min_value=0, max_value=2**32))
def test_the_decision_ir_gives_the_reference_verdict_and_rule(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng)
    decision = decide(case.policies, partition(vocabulary_of(case.policies), case.universe))
    for flow in case.flows(rng, 60):
        for direction, subject, peer in (
            (Direction.EGRESS, flow.src, flow.dst),
            (Direction.INGRESS, flow.dst, flow.src),
        ):
            wanted = end_verdict(case.policies, direction, subject, peer, flow)
            seen = end_decision(decision, direction, subject, peer, flow)
            assert seen == entry_of(wanted), f"{flow}"
