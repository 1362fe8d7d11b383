# SPDX-License-Identifier: Apache-2.0
"""What a connection of the symbolic universe can be, and what it cannot."""

from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
import z3

from policyc.ir.errors import InternalError
from policyc.ir.policy import ALWAYS, ANY_PEER, NO_ENDPOINT, Action, Direction, PolicySet
from policyc.ir.semantics import DeniedByHost, verdict
from policyc.ir.services import Service
from policyc.ir.universe import Endpoint, Flow, HostInterface, Node
from policyc.verifier.symbolic import connection_flow
from policyc.verifier.symbolic.attributes import NAMESPACE_KEY
from policyc.verifier.symbolic.connection import Connection
from policyc.verifier.symbolic.connection_flow import confirmed
from policyc.verifier.symbolic.verdict_terms import ACTIONS
from tests.unit.verifier.intents.intent_battery import (
    ALL,
    CALICO,
    DB,
    NODES,
    SHUT,
    app,
    block,
    closed,
    rule,
)


def a_flow(connection: Connection, *terms: Any) -> Flow | None:
    """Some connection with these terms, as the semantics confirms it."""
    solver = z3.Solver()
    solver.add(connection.is_possible(), *terms)
    if solver.check() == z3.unsat:
        return None
    return confirmed(connection, solver.model()).flow


def kinds(connection: Connection, src: str, dst: str) -> list[Any]:
    ends = []
    for name, end in ((src, connection.src), (dst, connection.dst)):
        ends.append({"pod": end.is_pod, "node": end.is_node, "outside": end.is_outside}[name])
    return ends


@pytest.mark.parametrize("policies", [DB, SHUT, closed(app("x"), rule(NODES), hosts=ALWAYS)])
@pytest.mark.parametrize("src", ["pod", "node", "outside"])
@pytest.mark.parametrize("dst", ["pod", "node", "outside"])
def test_every_pair_of_ends_has_a_flow_except_two_external_addresses(
    policies: PolicySet, src: str, dst: str
) -> None:
    connection = Connection((policies,))
    flow = a_flow(connection, *kinds(connection, src, dst))
    assert (flow is None) is (src == dst == "outside")


def test_two_pods_may_differ_in_their_addresses_only() -> None:
    c = Connection((DB,))
    same = [c.src.pod.value(key) == c.dst.pod.value(key) for key in c.src.pod.domains]
    flow = a_flow(c, *kinds(c, "pod", "pod"), *same, z3.Not(c.is_same_pod))
    assert flow is not None
    src, dst = flow.src, flow.dst
    assert isinstance(src, Endpoint) and isinstance(dst, Endpoint)
    assert src.labels == dst.labels and src.addresses != dst.addresses


def test_a_pods_connection_to_itself_is_allowed() -> None:
    c = Connection((SHUT,))
    flow = a_flow(c, c.is_same_pod)
    assert flow is not None and flow.src == flow.dst
    assert a_flow(c, c.is_same_pod, z3.Not(c.allowed(SHUT))) is None
    assert a_flow(c, c.is_same_pod, z3.Not(c.is_builtin(c.sets[0]))) is None


def test_a_node_that_speaks_reaches_its_pod() -> None:
    c = Connection((SHUT,))
    assert a_flow(c, c.is_on_dst_node, c.speaks, z3.Not(c.allowed(SHUT))) is None
    flow = a_flow(c, c.is_on_dst_node, z3.Not(c.speaks), z3.Not(c.allowed(SHUT)))
    assert flow is not None
    assert isinstance(flow.src, Node) and isinstance(flow.dst, Endpoint)
    assert flow.src.name == flow.dst.node


def test_only_pods_have_addresses_of_pod_networks() -> None:
    network = ip_network("10.0.0.0/8")
    c = Connection((DB,), pod_networks=(network,))
    away = c.src_matches(block("11.0.0.0/8"))
    there = c.src_matches(block("10.0.0.0/8"))
    assert a_flow(c, c.src.is_pod, away) is None
    assert a_flow(c, c.src.is_outside, there) is None
    assert a_flow(c, c.src.is_node, there) is not None
    assert a_flow(c, c.src.is_pod, c.is_ipv6) is not None  # no network of that family is named


def test_tcp_has_a_source_port() -> None:
    c = Connection((DB,))
    assert a_flow(c, c.key == Service(6, 80).key, z3.Not(c.has_source_port)) is None
    assert a_flow(c, c.key == Service(1, 0x0800).key, c.has_source_port) is None


def test_shared_objects_have_one_set_of_labels() -> None:
    c = Connection((SHUT,), peers=(ALL, replace(ALL, selector=app("web"))))
    value = c.src.pod.domains[NAMESPACE_KEY].number_of["shop"]
    together = [end.pod.value(NAMESPACE_KEY) == value for end in (c.src, c.dst)]
    flow = a_flow(c, *kinds(c, "pod", "pod"), *together)
    assert flow is not None
    assert isinstance(flow.src, Endpoint) and isinstance(flow.dst, Endpoint)
    assert flow.src.namespace == flow.dst.namespace == "shop"


def test_a_model_that_the_semantics_contradicts_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    c = Connection((SHUT,))
    turned = {Action.ALLOW: Action.DENY, Action.DENY: Action.ALLOW}

    def wrong(policies: PolicySet, flow: Flow) -> Any:
        right = verdict(policies, flow)
        changed = replace(right.ingress, action=turned[right.ingress.action])
        return replace(right, ingress=changed)

    monkeypatch.setattr(connection_flow, "verdict", wrong)
    with pytest.raises(InternalError, match="another"):
        a_flow(c)


def test_an_unknown_policy_set_is_an_internal_error() -> None:
    c = Connection((DB,))
    with pytest.raises(InternalError, match="not made for"):
        c.end(SHUT, Direction.EGRESS)


LOGGED = closed(NO_ENDPOINT, rule(ANY_PEER), isolates=frozenset(), hosts=ALWAYS, kind=CALICO)


def test_a_logged_flow_stays_denied_at_a_host_under_host_policy() -> None:
    tier = LOGGED.tiers[0]
    policy = replace(
        tier.policies[0], ingress=(replace(rule(ANY_PEER), action=Action.LOG),), egress=()
    )
    policies = PolicySet((replace(tier, policies=(policy,)),))
    host = HostInterface("eth0", denies_unmatched=True)
    node = Node("n1", addresses=(ip_address("192.0.2.1"),), host=host)
    found = verdict(policies, Flow(ip_address("203.0.113.1"), node, Service(6, 80), 4, 40000))
    assert found.ingress.action is Action.DENY
    assert isinstance(found.ingress.decider, DeniedByHost)
    assert [effect.kind.value for effect in found.ingress.effects] == ["log"]
    c = Connection((policies,))
    denied = c.end(policies, Direction.INGRESS)[0] == ACTIONS.index(Action.DENY)
    assert a_flow(c, c.dst.is_node, denied) is not None
