# SPDX-License-Identifier: Apache-2.0
"""Answers where the node of an end, or what labels it has, is not known and policies read it."""

from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest

from policyc.compiler.driver.eval.answers import answer
from policyc.ir.policy import (
    ALWAYS,
    ANY_PEER,
    EVERY_ENDPOINT,
    NO_ENDPOINT,
    Action,
    AllOf,
    AnyService,
    Attribute,
    AttributeTest,
    Condition,
    Direction,
    EndpointPeer,
    EndpointSelector,
    NodePeer,
    Not,
    OneOf,
    Operator,
    Peer,
    Policy,
    PolicySet,
    Requirement,
    Rule,
    Tier,
    TierMode,
    Where,
)
from policyc.ir.services import Service
from policyc.ir.spans import NOWHERE, Origin
from policyc.ir.universe import End, Endpoint, Flow, HostInterface, Node

INGRESS, EGRESS = Direction.INGRESS, Direction.EGRESS
ORIGIN = Origin(NOWHERE, "")
N1 = Node("n1", {"role": "cp"}, (IPv4Address("192.0.2.1"),))
N2 = Node("n2", {"role": "w"}, (IPv4Address("192.0.2.2"),))
POD = Endpoint("shop", "web", addresses=(IPv4Address("10.0.0.1"),), node="n2", its_node=N2)
TEMPLATE = Endpoint("shop", "tm", addresses_known=False, is_template=True)
HOST = replace(TEMPLATE, name="hostd", host_network=True)
UNDESCRIBED = replace(HOST, name="lost", node="n9", is_template=False)
OUTSIDE = IPv4Address("203.0.113.9")


def label(value: str, operator: Operator = Operator.IN, key: str = "role") -> Condition:
    return AttributeTest(Attribute.NODE_LABEL, Requirement(key, operator, (value,)))


def named(value: str) -> Condition:
    return AttributeTest(Attribute.NODE, Requirement("", Operator.IN, (value,)))


CP = label("cp")
ON_N1 = EndpointSelector(condition=named("n1"))


def deny(peer: Peer, **fields: Any) -> Rule:
    return Rule(Action.DENY, (peer,), (AnyService(),), ORIGIN, **fields)


def one(direction: Direction, *rules: Rule, **fields: Any) -> PolicySet:
    into, out = (rules, ()) if direction is INGRESS else ((), rules)
    subject = fields.pop("subject", EVERY_ENDPOINT)
    kind, isolates = fields.pop("kind", "Test"), fields.pop("isolates", frozenset())
    policy = Policy(kind, "", "p", subject, isolates, into, out, ORIGIN, **fields)
    return PolicySet((Tier("t", TierMode.FIRST_MATCH, Action.DENY, (policy,)),))


def verdict_on(policies: PolicySet, src: End, dst: End) -> str:
    found = answer(policies, Flow(src, dst, Service(6, 80), 4), (N1, N2))
    assert (found.verdict == "unknown") == bool(found.unknown)
    return found.verdict


@pytest.mark.parametrize("dst", [HOST, UNDESCRIBED])
@pytest.mark.parametrize("peer", [NodePeer(CP), Not(NodePeer(CP)), NodePeer(Not(CP))])
def test_a_peer_by_labels_of_an_unknown_node_gives_an_unknown_verdict(peer: Peer, dst: End) -> None:
    assert verdict_on(one(EGRESS, deny(peer)), POD, dst) == "unknown"


@pytest.mark.parametrize(
    ("policies", "dst"),
    [
        (one(EGRESS, deny(NodePeer(CP))), TEMPLATE),  # a pod is no node
        (one(EGRESS, deny(NodePeer(named("n1")))), UNDESCRIBED),  # its name is known
        (one(INGRESS, deny(ANY_PEER), subject=ON_N1), POD),
        (one(EGRESS, deny(EndpointPeer(ON_N1))), HOST),  # a node is no endpoint
        (one(EGRESS, deny(NodePeer(AllOf((CP, label("w")))))), HOST),  # no node is both
    ],
)
def test_flows_that_no_node_can_change_are_allowed(policies: PolicySet, dst: End) -> None:
    assert verdict_on(policies, replace(POD, name="other"), dst) == "allow"


def test_rules_that_between_them_deny_every_node_deny() -> None:
    policies = one(EGRESS, deny(NodePeer(CP)), deny(NodePeer(Not(CP))))
    assert verdict_on(policies, POD, HOST) == "deny"


@pytest.mark.parametrize(
    "policies",
    [
        one(INGRESS, deny(ANY_PEER), subject=ON_N1),
        one(INGRESS, isolates=frozenset({INGRESS}), subject=EndpointSelector(condition=CP)),
        one(INGRESS, deny(ANY_PEER, own=EndpointPeer(ON_N1))),
        one(EGRESS, deny(EndpointPeer(ON_N1))),
        one(EGRESS, deny(EndpointPeer(EndpointSelector(condition=OneOf((CP, named("n7"))))))),
    ],
)
def test_a_template_may_come_to_be_selected_by_its_node(policies: PolicySet) -> None:
    assert verdict_on(policies, POD, TEMPLATE) == "unknown"


def test_the_finding_says_whether_the_node_or_its_labels_are_missing() -> None:
    for end, what in ((HOST, "the node of shop/hostd"), (UNDESCRIBED, "the labels of the node")):
        flow = Flow(POD, end, Service(6, 80), 4)
        (finding,) = answer(one(EGRESS, deny(NodePeer(CP))), flow, (N1,)).findings("f", NOWHERE)
        assert finding.code == "PC0707" and what in finding.message


@pytest.mark.parametrize("src", [HOST, UNDESCRIBED])
def test_any_node_may_be_a_subject_of_cilium_policies(src: End) -> None:
    fields: dict[str, Any] = {
        "kind": "CiliumClusterwideNetworkPolicy.cilium.io",
        "subject": NO_ENDPOINT,
        "isolates": frozenset({EGRESS}),
    }
    nodes = [replace(node, host=HostInterface(node.name)) for node in (N1, N2)]
    flow = Flow(src, OUTSIDE, Service(6, 80), 4)
    assert answer(one(EGRESS, hosts=CP, **fields), flow, nodes).verdict == "unknown"
    assert answer(one(EGRESS, hosts=ALWAYS, **fields), flow, nodes).verdict == "deny"


def test_a_host_network_pod_may_run_on_a_node_under_host_policy() -> None:
    guarded = replace(N1, host=HostInterface("eth0", {"hep": "a"}, denies_unmatched=True))
    flow = Flow(HOST, OUTSIDE, Service(6, 80), 4)
    assert answer(PolicySet(()), flow, (guarded,)).verdict == "unknown"
    assert answer(PolicySet(()), flow, (N1,)).verdict == "allow"


def test_two_unscheduled_pods_may_share_a_node_or_not() -> None:
    local = one(EGRESS, deny(NodePeer(where=Where.LOCAL)))
    assert verdict_on(local, TEMPLATE, HOST) == "unknown"
    both = one(EGRESS, deny(NodePeer(where=Where.LOCAL)), deny(NodePeer(where=Where.REMOTE)))
    assert verdict_on(both, TEMPLATE, HOST) == "deny"


def test_many_labels_do_not_make_many_cases() -> None:
    keys = [label("x", key=f"k{number}") for number in range(40)]
    policies = one(EGRESS, *(deny(NodePeer(AllOf(tuple(keys[i : i + 3])))) for i in range(38)))
    assert verdict_on(policies, POD, HOST) == "unknown"
