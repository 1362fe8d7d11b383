# SPDX-License-Identifier: Apache-2.0
"""Intents reported as holding hold for every tried flow, and those reported as broken are broken.

Against brute force with the reference semantics, in both universes: no flow of a small cluster breaks
what is said to hold, no decided flow belongs to what is said to be vacuous, and each witness is asked
again; in the universe of the cluster, its ends are the cluster's.
"""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.ir.intents import Intent, IntentKind, Scope
from policyc.ir.policy import PolicySet
from policyc.ir.results.verify import IntentAnswer, IntentStatus
from policyc.ir.semantics import AllowedByDefault, verdict
from policyc.ir.universe import Endpoint, Flow, Node, Universe
from policyc.verifier.cluster.connection import (
    ANOTHER_REPLICA,
    ClusterConnection,
)
from policyc.verifier.intents.intents import (
    BOTH_SIDES,
    NO_END,
    Asking,
    verify_intents,
)
from policyc.verifier.intents.oracle import (
    breaks,
    is_asked,
)
from policyc.verifier.symbolic.connection import Connection
from policyc.verifier.symbolic.connection_terms import ConnectionTerms
from tests.property.connection_cases import connection_case, flows_of
from tests.property.intent_cases import random_intent
from tests.property.length import examples

SEEDS = st.integers(min_value=0, max_value=2**32)
ASKING = Asking(limit_ms=20_000)


def check_answer(
    answer: IntentAnswer, intent: Intent, policies: PolicySet, flows: list[Flow]
) -> None:
    broken = [flow for flow in flows if breaks(intent, flow, verdict(policies, flow))]
    if answer.status is IntentStatus.BROKEN:
        assert answer.witness is not None
        flow = answer.witness.flow
        if answer.explanation == BOTH_SIDES:
            assert flow.src == flow.dst
        else:
            assert breaks(intent, flow, verdict(policies, flow))
        return
    if answer.status is IntentStatus.UNDECIDED:
        return
    assert not broken, f"{answer.words}: {answer.status.value}, but {broken[0]} breaks it"
    has_no_end = intent.kind is IntentKind.ONLY and answer.explanation == NO_END.format(side="from")
    if answer.status is IntentStatus.VACUOUS and not has_no_end:
        asked = [
            f
            for f in flows
            if is_asked(intent, f, verdict(policies, f)) and is_decided(intent, policies, f)
        ]
        assert not asked, f"{answer.words}: vacuous, but {asked[0]} is decided"


def is_decided(intent: Intent, policies: PolicySet, flow: Flow) -> bool:
    """A rule or a default of some policy decided an end in the intent's scope."""
    both = verdict(policies, flow)
    ends = {
        Scope.EGRESS: [both.egress],
        Scope.INGRESS: [both.ingress],
        Scope.END_TO_END: [both.egress, both.ingress],
    }[intent.scope]
    return not all(isinstance(end.decider, AllowedByDefault) for end in ends)


def check(seed: int, *, in_cluster: bool) -> None:
    rng = random.Random(seed)
    case = connection_case(rng, max_tiers=2, max_policies=2)
    universe = placed(case.universe)
    intents = [random_intent(rng, number) for number in range(3)]
    connection: ConnectionTerms = Connection((case.policies,), intents)
    if in_cluster:
        known = with_templates(rng, universe)
        connection = ClusterConnection((case.policies,), known, intents)
    answers, _ = verify_intents(connection, case.policies, intents, ASKING)
    flows = flows_of(universe, rng, 40)
    for answer, intent in zip(answers, intents, strict=True):
        check_answer(answer, intent, case.policies, flows)
        if in_cluster and answer.witness is not None:
            check_ends(answer.witness.flow, known)


def placed(universe: Universe) -> Universe:
    """Every pod on a named node: unknown values have sorts, not one value."""
    pods = tuple(replace(pod, node=pod.node or "elsewhere") for pod in universe.endpoints)
    return Universe(pods, universe.nodes)


def with_templates(rng: random.Random, universe: Universe) -> Universe:
    """The addresses of some pods are unknown: intents that hold must hold for every address."""
    pods = tuple(
        replace(pod, addresses=(), addresses_known=False, is_template=True)
        if rng.random() < 0.2
        else pod
        for pod in universe.endpoints
    )
    return Universe(pods, universe.nodes)


def check_ends(flow: Flow, universe: Universe) -> None:
    """The ends belong to the cluster, and an external address belongs to none of them."""
    pods = {pod.qualified_name for pod in universe.endpoints}
    held = {a for end in (*universe.endpoints, *universe.nodes) for a in end.addresses}
    for end in (flow.src, flow.dst):
        if isinstance(end, Endpoint):
            assert end.qualified_name.removesuffix(f" {ANOTHER_REPLICA}") in pods
        elif isinstance(end, Node):
            assert end.name in {node.name for node in universe.nodes}
        else:
            assert end not in held


@settings(max_examples=examples(25), deadline=None)
@given(SEEDS)
def test_symbolic_intents_hold_in_a_small_cluster(seed: int) -> None:
    check(seed, in_cluster=False)


@settings(max_examples=examples(40), deadline=None)
@given(SEEDS)
def test_intents_of_a_cluster_hold_for_its_flows(seed: int) -> None:
    check(seed, in_cluster=True)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(SEEDS, st.booleans())
def test_intents_that_hold_hold_at_length(seed: int, in_cluster: bool) -> None:
    check(seed, in_cluster=in_cluster)
