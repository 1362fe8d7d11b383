# SPDX-License-Identifier: Apache-2.0
"""The symbolic diff agrees with the reference semantics, flow by flow, and explains every difference."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import policyc.verifier.diff.symbolic as symbolic
from policyc.ir.matching import condition_holds, peer_matches, selects
from policyc.ir.peers import EndpointPeer, NodePeer
from policyc.ir.policy import Direction, PolicySet
from policyc.ir.results.diff import DifferenceKind, DiffOutcome
from policyc.ir.semantics import as_seen, is_from_its_node, verdict
from policyc.ir.universe import Endpoint, Flow, Node
from policyc.verifier.cluster.own_node import binds_own_node
from policyc.verifier.diff.end_changes import (
    EndChange,
    EndRegion,
)
from policyc.verifier.diff.symbolic import (
    diff_symbolic,
    end_queries,
)
from policyc.verifier.symbolic.differences import (
    kind_between,
    outcome_of,
    said,
)
from policyc.verifier.symbolic.literals import (
    Declares,
    Family,
    Generated,
    Literal,
    Other,
    Own,
    Services,
    SourcePorts,
)
from tests.property.cluster_flows import (
    flows_of,
    known,
)
from tests.property.length import examples
from tests.property.policy_mutations import (
    mutated,
    with_notes,
)
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)
OPENED = (DiffOutcome.WIDENED, DiffOutcome.BOTH)
CLOSED = (DiffOutcome.NARROWED, DiffOutcome.BOTH)


def is_true(literal: Literal, direction: Direction, flow: Flow) -> bool:
    """Whether a literal holds for a concrete flow, by the matching of the reference semantics."""
    src, dst = as_seen(flow.src), as_seen(flow.dst)
    subject, other = (dst, src) if direction is Direction.INGRESS else (src, dst)
    assert isinstance(subject, Endpoint | Node)
    match literal:
        case Own(peer, holds):
            if isinstance(peer, EndpointPeer) and isinstance(subject, Endpoint):
                return selects(peer.selector, subject) == holds
            if isinstance(peer, NodePeer) and isinstance(subject, Node):
                return condition_holds(peer.condition, subject) == holds
            return peer_matches(peer, subject, flow.family, subject) == holds
        case Other(peer, holds):
            return peer_matches(peer, other, flow.family, subject) == holds
        case Services(keys):
            return flow.service.key in keys
        case SourcePorts(ports):
            return flow.source_port is not None and flow.source_port in ports
        case Declares(port, holds):
            numbers = dst.named_ports(port.name, port.protocol) if isinstance(dst, Endpoint) else ()
            return (flow.service.value in numbers) == holds
        case Family(is_ipv6):
            return (flow.family == 6) == is_ipv6
        case Generated(holds):
            ingress = direction is Direction.INGRESS
            return (ingress and is_from_its_node(flow.src, flow.dst)) == holds


def change_at(
    before: PolicySet, after: PolicySet, flow: Flow, direction: Direction, ignore: bool
) -> EndChange | None:
    ends = [
        said(v.ingress if direction is Direction.INGRESS else v.egress, ignore)
        for v in (verdict(before, flow), verdict(after, flow))
    ]
    if ends[0] == ends[1]:
        return None
    denied = [action.is_deny for action, _ in ends]
    if denied[0] == denied[1]:
        return EndChange.OTHER
    return EndChange.CLOSES if denied[1] else EndChange.OPENS


def check(seed: int, few: int | None = None) -> None:
    rng = random.Random(seed)
    case = tiered_case(rng, max_tiers=3, max_policies=3)
    case = replace(case, universe=known(case.universe))
    before = with_notes(rng, case.policies)
    after = mutated(rng, before) if before.tiers else before
    ignore = rng.random() < 0.3
    regions: list[tuple[EndRegion, bool]] = []
    for _, query in end_queries(before, after, ignore, ()):
        for change in EndChange:
            regions += ((each, query.situation.binds_own_node) for each in query.regions(change))
    found = diff_symbolic(before, after, ignore_effects=ignore, most=rng.choice((None, 1)))
    counted = {count.kind for count in found.counts if count.number}
    assert found.outcome is outcome_of(counted), "the outcome is said of what is counted"
    assert counted == {each.kind for each in found.differences} or len(found.differences) == 20
    bound = binds_own_node(before) or binds_own_node(after)
    for flow in flows_of(case, rng, 60, with_own_nodes=bound):
        kind = kind_between(verdict(before, flow), verdict(after, flow), ignore)
        if kind is DifferenceKind.WIDENED:
            assert found.outcome in OPENED, f"{flow}"
        elif kind is DifferenceKind.NARROWED:
            assert found.outcome in CLOSED, f"{flow}"
        elif kind is DifferenceKind.CHANGED:
            assert found.outcome is not DiffOutcome.EQUAL, f"{flow}"
        for direction in Direction:
            subject = flow.dst if direction is Direction.INGRESS else flow.src
            if not isinstance(subject, Endpoint):
                continue
            # Where no rule denies what the own node generates, a region says nothing of it (A22).
            is_own = direction is Direction.INGRESS and is_from_its_node(flow.src, flow.dst)
            holding = [
                r
                for r, binds_own in regions
                if r.direction is direction
                and not r.is_host
                and (binds_own or not is_own)
                and all(is_true(each, direction, flow) for each in r.literals)
            ]
            wanted = change_at(before, after, flow, direction, ignore)
            assert wanted is None or wanted in {r.change for r in holding}, f"{direction} {flow}"
            exact = {r.change for r in holding if r.is_exact}
            assert exact <= {wanted}, f"{direction} {flow}"


@settings(max_examples=examples(60, 12), deadline=None)
@given(SEEDS)
def test_regions_hold_every_flow_that_differs_and_no_other(seed: int) -> None:
    check(seed)


@settings(max_examples=examples(40, 10), deadline=None)
@given(SEEDS)
def test_the_answer_is_the_same_namespace_by_namespace(seed: int) -> None:
    original = symbolic._FEW_POLICIES
    try:
        symbolic._FEW_POLICIES = 0
        check(seed)
    finally:
        symbolic._FEW_POLICIES = original


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(SEEDS)
def test_regions_hold_every_flow_that_differs_at_length(seed: int) -> None:
    check(seed)
