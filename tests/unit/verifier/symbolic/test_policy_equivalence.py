# SPDX-License-Identifier: Apache-2.0
"""What makes two policy sets differ, or not, in the smallest clusters that could exist."""

from ipaddress import ip_network

import pytest

from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import (
    ALWAYS,
    ANY_PEER,
    EVERY_ENDPOINT,
    NEVER,
    NO_ENDPOINT,
    Action,
    AddressPeer,
    AllOf,
    AnyService,
    Attribute,
    AttributeTest,
    Condition,
    Direction,
    EndpointPeer,
    EndpointSelector,
    EveryPort,
    LabelSelector,
    Limit,
    NodePeer,
    Not,
    Operator,
    Peer,
    Policy,
    PolicySet,
    ProtocolNumber,
    Requirement,
    Rule,
    Tier,
    TierMode,
    Where,
)
from policyc.ir.services import Protocol
from policyc.ir.spans import NOWHERE, Origin
from policyc.verifier.symbolic.policy_equivalence import (
    Difference,
    Same,
    compare,
)

HERE = Origin(NOWHERE, "x")
LABEL, NAMESPACE, NODE = Attribute.LABEL, Attribute.NAMESPACE, Attribute.NODE
LONG = "a" * 64


def rule(*peers: Peer, action: Action = Action.ALLOW, **change: object) -> Rule:
    return Rule(action, peers, (AnyService(),), HERE, **change)  # type: ignore[arg-type]


def ingress(
    *rules: Rule, subject: EndpointSelector = EVERY_ENDPOINT, hosts: Condition = NEVER
) -> PolicySet:
    """One policy that isolates ingress."""
    isolates = frozenset({Direction.INGRESS})
    policy = Policy("T", "", "p", subject, isolates, rules, (), HERE, hosts)
    return PolicySet((Tier("t", TierMode.FIRST_MATCH, Action.DENY, (policy,)),))


def on(attribute: Attribute, key: str, operator: Operator, *values: str) -> Condition:
    return AttributeTest(attribute, Requirement(key, operator, values))


def pods(*conditions: Condition) -> Peer:
    return EndpointPeer(EndpointSelector(condition=AllOf(conditions)))


def nodes(condition: Condition = ALWAYS, where: Where = Where.ANYWHERE) -> Peer:
    return NodePeer(condition, where)


def hosts(*rules: Rule) -> PolicySet:
    return ingress(*rules, subject=NO_ENDPOINT, hosts=ALWAYS)


NO_X = on(NODE, "", Operator.NOT_IN, "x")
HAS_Z = on(Attribute.NODE_LABEL, "z", Operator.EXISTS)
NO_Z_ON_N = EndpointSelector(condition=AllOf((on(NODE, "", Operator.IN, "n"), Not(HAS_Z))))
PREFIX = pods(on(LABEL, "a", Operator.STARTS_WITH, "x"))
SOURCE = IntervalSet.of([(0, 65535)])
TCP = (EveryPort(Protocol.TCP),)

DIFFERENT = {
    "an escape of the solver's is a text like any other": (
        ingress(rule(PREFIX, pods(on(LABEL, "a", Operator.IN, "\\u{61}")))),
        ingress(rule(PREFIX, pods(on(LABEL, "a", Operator.IN, "a")))),
    ),
    "so it is inside a text": (
        ingress(rule(pods(on(LABEL, "a", Operator.CONTAINS, "\\u{61}")))),
        ingress(rule(pods(on(LABEL, "a", Operator.CONTAINS, "a")))),
    ),
    "service accounts have long names": (
        ingress(rule(pods(on(Attribute.SERVICE_ACCOUNT, "", Operator.STARTS_WITH, LONG)))),
        ingress(rule()),
    ),
    "nodes have long names": (
        ingress(rule(nodes(on(NODE, "", Operator.STARTS_WITH, LONG)))),
        ingress(rule()),
    ),
    "a node may be known by no name": (
        ingress(rule(nodes(NO_X))),
        ingress(rule(nodes(AllOf((NO_X, on(NODE, "", Operator.EXISTS)))))),
    ),
    "a host has other addresses": (hosts(rule(nodes(where=Where.LOCAL))), hosts(rule())),
    "other nodes have other labels": (
        ingress(rule(nodes(HAS_Z, Where.REMOTE)), subject=NO_Z_ON_N),
        ingress(rule(), subject=NO_Z_ON_N),
    ),
    "a log is an effect": (
        ingress(rule(ANY_PEER, log=True)),
        ingress(rule(ANY_PEER)),
    ),
    "limits are told apart": (
        ingress(rule(ANY_PEER, limit=Limit(1, 2))),
        ingress(rule(ANY_PEER, limit=Limit(1, 3))),
    ),
    "reject is not deny": (
        ingress(rule(ANY_PEER, action=Action.REJECT)),
        ingress(rule(ANY_PEER, action=Action.DENY)),
    ),
    "a source port may not be known": (
        ingress(Rule(Action.ALLOW, (ANY_PEER,), TCP, HERE, source_ports=SOURCE)),
        ingress(Rule(Action.ALLOW, (ANY_PEER,), TCP, HERE)),
    ),
}

SAME = {
    "every pod has a service account": (
        ingress(rule(pods(on(Attribute.SERVICE_ACCOUNT, "", Operator.EXISTS)))),
        ingress(rule(pods())),
    ),
    "a namespace's label with its name is its name": (
        ingress(
            rule(
                EndpointPeer(
                    EndpointSelector(
                        namespace_labels=LabelSelector(
                            (Requirement("kubernetes.io/metadata.name", Operator.IN, ("x",)),)
                        )
                    )
                )
            )
        ),
        ingress(rule(EndpointPeer(EndpointSelector("x")))),
    ),
    "labels of a node need a node": (
        ingress(rule(pods(HAS_Z, Not(on(NODE, "", Operator.EXISTS))))),
        ingress(rule()),
    ),
    "the empty prefix is any value": (
        ingress(rule(pods(on(LABEL, "a", Operator.STARTS_WITH, "")))),
        ingress(rule(pods(on(LABEL, "a", Operator.EXISTS)))),
    ),
    "the own node has one set of labels": (
        ingress(rule(nodes(HAS_Z, Where.LOCAL)), subject=NO_Z_ON_N),
        ingress(rule(), subject=NO_Z_ON_N),
    ),
    "pods of one namespace have one set of its labels": (
        ingress(
            rule(
                pods(
                    on(NAMESPACE, "", Operator.IN, "x"),
                    on(Attribute.NAMESPACE_LABEL, "z", Operator.EXISTS),
                )
            ),
            subject=EndpointSelector(
                "x", condition=Not(on(Attribute.NAMESPACE_LABEL, "z", Operator.EXISTS))
            ),
        ),
        ingress(
            rule(),
            subject=EndpointSelector(
                "x", condition=Not(on(Attribute.NAMESPACE_LABEL, "z", Operator.EXISTS))
            ),
        ),
    ),
    "no flow has the other family's ICMP": (
        ingress(Rule(Action.ALLOW, (AddressPeer(ip_network("::/0")),), (ProtocolNumber(1),), HERE)),
        ingress(rule()),
    ),
    "to log twice is to log": (
        ingress(rule(ANY_PEER, action=Action.LOG), rule(ANY_PEER, log=True)),
        ingress(rule(ANY_PEER, log=True)),
    ),
}


SLOW = {"nodes have long names"}
"""Seconds each."""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(*sets, id=name, marks=pytest.mark.slow if name in SLOW else ())
        for name, sets in DIFFERENT.items()
    ],
)
def test_different_policy_sets_compare_as_different(before: PolicySet, after: PolicySet) -> None:
    assert isinstance(compare(before, after), Difference)
    assert isinstance(compare(after, before), Difference)


@pytest.mark.parametrize(("before", "after"), SAME.values(), ids=SAME)
def test_equal_policy_sets_compare_as_same(before: PolicySet, after: PolicySet) -> None:
    assert isinstance(compare(before, after), Same)


def test_effects_may_be_ignored() -> None:
    before, after = DIFFERENT["a log is an effect"]
    assert isinstance(compare(before, after, ignore_effects=True), Same)


def test_an_undecided_host_flow_differs_from_an_allowed_one() -> None:
    allowed = ingress(rule(ANY_PEER), subject=NO_ENDPOINT, hosts=ALWAYS)
    nothing = PolicySet(())
    for one, other in ((allowed, nothing), (nothing, allowed)):
        found = compare(one, other)
        assert isinstance(found, Difference)
        assert {found.before.action, found.after.action} == {Action.ALLOW, Action.DENY}
