# SPDX-License-Identifier: Apache-2.0
"""Policies of one priority that are let through give the same verdicts in either order (B31)."""

from ipaddress import ip_address, ip_network
from itertools import product

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from policyc.compiler.frontend.checks.equal_priorities import check_priorities
from policyc.compiler.frontend.lowered import AdminSlot, Lowered
from policyc.ir.diagnostics import Report
from policyc.ir.policy import (
    Action,
    AddressPeer,
    AllOf,
    AnyService,
    Attribute,
    AttributeTest,
    EndpointPeer,
    EndpointSelector,
    LabelSelector,
    NamedPort,
    NodePeer,
    Operator,
    Peer,
    Policy,
    PolicySet,
    PortRange,
    Ports,
    Requirement,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.semantics import verdict
from policyc.ir.services import Protocol, Service
from policyc.ir.spans import NOWHERE, Origin
from policyc.ir.universe import ContainerPort, End, Endpoint, Flow, Node
from tests.property.length import examples

ORIGIN = Origin(NOWHERE, "")
LABELS = [{}, {"a": "1"}, {"a": "2"}, {"b": "1"}, {"a": "1", "b": "1"}]
PODS = [
    Endpoint(
        "shop",
        f"p{at}",
        labels,
        labels,
        (ContainerPort("web", "TCP", 80 + at),),
        (ip_address(f"10.0.0.{at}"),),
    )
    for at, labels in enumerate(LABELS)
]
NODES = [Node(f"n{at}", labels, (ip_address(f"10.1.0.{at}"),)) for at, labels in enumerate(LABELS)]
ENDS: list[End] = [*PODS, *NODES, ip_address("10.0.0.9"), ip_address("192.0.2.1")]
SERVICES = [Service(6, 80), Service(6, 81), Service(17, 80), Service(1, 8 << 8)]
NETWORKS = ["10.0.0.0/24", "10.0.0.0/30", "10.1.0.0/24", "192.0.2.0/24", "0.0.0.0/0", "::/0"]

requirements = st.builds(
    lambda key, operator, values: Requirement(
        key, operator, tuple(sorted(values)) if operator.value.endswith("In") else ()
    ),
    st.sampled_from("ab"),
    st.sampled_from(list(Operator)[:4]),
    st.sets(st.sampled_from("12"), min_size=1),
)
selectors = st.lists(requirements, max_size=2).map(lambda r: LabelSelector(tuple(r)))
endpoints = st.builds(EndpointSelector, st.none(), selectors, selectors)
peers: st.SearchStrategy[Peer] = st.one_of(
    endpoints.map(EndpointPeer),
    st.sampled_from(NETWORKS).map(lambda text: AddressPeer(ip_network(text))),
    st.lists(requirements, max_size=2).map(
        lambda r: NodePeer(AllOf(tuple(AttributeTest(Attribute.NODE_LABEL, one) for one in r)))
    ),
)
ports: st.SearchStrategy[Ports] = st.one_of(
    st.just(AnyService()),
    st.sampled_from([(80, 80), (81, 81), (80, 90)]).map(lambda p: PortRange(Protocol.TCP, *p)),
    st.just(PortRange(Protocol.UDP, 80, 80)),
    st.just(NamedPort(Protocol.TCP, "web")),
)
rules = st.builds(
    lambda action, peers, ports: Rule(action, tuple(peers), tuple(ports), ORIGIN),
    st.sampled_from([Action.ALLOW, Action.DENY, Action.PASS]),
    st.lists(peers, min_size=1, max_size=2),
    st.lists(ports, min_size=1, max_size=2),
)


def policies(name: str) -> st.SearchStrategy[Policy]:
    listed = st.lists(rules, max_size=2).map(tuple)
    return st.builds(
        lambda subject, into, out: Policy("A", "", name, subject, frozenset(), into, out, ORIGIN),
        endpoints,
        listed,
        listed,
    )


def in_order(*given: Policy) -> PolicySet:
    return PolicySet((Tier("t", TierMode.FIRST_MATCH, Action.PASS, given),))


@settings(
    max_examples=examples(150, 2),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much],
)
@given(policies("one"), policies("other"))
def test_no_order_of_policies_without_a_conflict_matters(one: Policy, other: Policy) -> None:
    report = Report()
    check_priorities([Lowered(one, AdminSlot(1)), Lowered(other, AdminSlot(1))], report)
    assume(not report.errors)
    for src, dst in product(ENDS, repeat=2):
        for service in SERVICES:
            flow = Flow(src, dst, service, 4)
            first = verdict(in_order(one, other), flow)
            second = verdict(in_order(other, one), flow)
            assert first.egress.action is second.egress.action, flow
            assert first.ingress.action is second.ingress.action, flow
