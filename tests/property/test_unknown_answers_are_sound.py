# SPDX-License-Identifier: Apache-2.0
"""Where `eval` answers, the answer holds however the unknown parts of the flow turn out."""

from dataclasses import replace
from ipaddress import ip_address, ip_network

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.driver.eval.answers import (
    UNKNOWN,
    answer,
)
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import (
    ANY_PEER,
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
from policyc.ir.semantics import verdict
from policyc.ir.services import Service
from policyc.ir.spans import NOWHERE, Origin
from policyc.ir.universe import End, Endpoint, Flow, Node
from tests.property.length import examples

ORIGIN = Origin(NOWHERE, "")
ADDRESSES = [ip_address(text) for text in ("0.0.0.0", "10.0.0.1", "10.128.0.1", "192.0.2.7")]
NETWORKS = ["0.0.0.0/0", "10.0.0.0/8", "10.128.0.0/9", "192.0.2.7/32", "::/0"]
PORTS = [1, 79, 80, 1023, 1024, 65535]
MANIFEST = Endpoint("shop", "manifest", addresses_known=False)
PLACED = replace(MANIFEST, name="placed", node="n1")
POD = Endpoint("shop", "pod", addresses=(ip_address("10.0.0.9"),), node="n1")
NODE = Node("n1", addresses=(ip_address("10.128.0.5"),))
HOST = replace(MANIFEST, name="host", host_network=True)
LOST = replace(HOST, name="lost", node="n2")
NODES = [
    replace(Node(name, labels), addresses=NODE.addresses if name == "n1" else ())
    for name in ("n1", "n2", "n3")
    for labels in ({}, {"role": "cp"}, {"role": "w", "zone": "a"}, {"zone": "b"})
    if name != "n1" or not labels
]
"""What may turn out to be there: n1 is known, the others may have any labels."""
TESTS = [
    AttributeTest(attribute, Requirement(key, operator, values))
    for attribute, key, operator, values in (
        (Attribute.NODE, "", Operator.IN, ("n1",)),
        (Attribute.NODE, "", Operator.NOT_IN, ("n2",)),
        (Attribute.NODE_LABEL, "role", Operator.IN, ("cp",)),
        (Attribute.NODE_LABEL, "role", Operator.EXISTS, ()),
        (Attribute.NODE_LABEL, "zone", Operator.STARTS_WITH, ("a",)),
    )
]
conditions: st.SearchStrategy[Condition] = st.lists(
    st.one_of(st.sampled_from(TESTS), st.sampled_from(TESTS).map(Not)), max_size=2
).map(lambda parts: AllOf(tuple(parts)))
ENDS: list[End] = [
    HOST,
    LOST,
    MANIFEST,
    PLACED,
    POD,
    NODE,
    replace(NODE, speaks=False),
    ADDRESSES[1],
]

leaf: st.SearchStrategy[Peer] = st.one_of(
    st.just(ANY_PEER),
    conditions.map(lambda condition: EndpointPeer(EndpointSelector(condition=condition))),
    st.builds(NodePeer, conditions, st.sampled_from(list(Where))),
    st.sampled_from(NETWORKS).map(lambda text: AddressPeer(ip_network(text))),
)
peers: st.SearchStrategy[Peer] = st.recursive(
    leaf,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda parts: AllOf(tuple(parts))),
        st.lists(inner, max_size=2).map(lambda parts: OneOf(tuple(parts))),
        inner.map(Not),
    ),
    max_leaves=3,
)
source_ports = st.one_of(
    st.none(),
    st.sampled_from([(1, 79), (80, 80), (1024, 65535), (0, 65535)]).map(
        lambda span: IntervalSet.of([span])
    ),
)
rules = st.builds(
    lambda action, peer, own, ports: Rule(
        action, (peer,), (AnyService(),), ORIGIN, own=own, source_ports=ports
    ),
    st.sampled_from([Action.ALLOW, Action.DENY]),
    peers,
    peers,
    source_ports,
)
listed = st.lists(rules, max_size=3).map(tuple)


@st.composite
def policy_sets(draw: st.DrawFn) -> PolicySet:
    isolates = frozenset(draw(st.sets(st.sampled_from(list(Direction)))))
    subject = EndpointSelector(condition=draw(conditions))
    policy = Policy("A", "", "p", subject, isolates, draw(listed), draw(listed), ORIGIN)
    return PolicySet((Tier("t", TierMode.FIRST_MATCH, Action.DENY, (policy,)),))


def turned_out(end: End, nodes: list[Node], draw: st.DrawFn) -> End:
    """One way in which an end may turn out, on one of `nodes`."""
    if not isinstance(end, Endpoint):
        return end
    if not end.addresses_known:
        end = replace(end, addresses=(draw(st.sampled_from(ADDRESSES)),), addresses_known=True)
    node = draw(st.sampled_from([node for node in nodes if end.node in ("", node.name)]))
    return replace(end, node=node.name, its_node=node)


@st.composite
def flows(draw: st.DrawFn) -> tuple[Flow, Flow]:
    """A flow with unknown parts, and one that it may turn out to be."""
    src, dst = draw(st.sampled_from(ENDS)), draw(st.sampled_from(ENDS))
    nodes = [
        draw(st.sampled_from([node for node in NODES if node.name == name]))
        for name in ("n1", "n2", "n3")
    ]
    flow = Flow(src, dst, Service(6, 80), 4)
    known = replace(
        flow,
        src=turned_out(src, nodes, draw),
        dst=turned_out(dst, nodes, draw),
        source_port=draw(st.sampled_from(PORTS)),
    )
    return flow, known


@settings(max_examples=examples(600, 2), deadline=None)
@given(policy_sets(), flows())
def test_an_answer_holds_for_every_possible_flow(
    policies: PolicySet, pair: tuple[Flow, Flow]
) -> None:
    flow, known = pair
    if flow.src == flow.dst:
        return
    given = answer(policies, flow, [NODE])
    if given.verdict != UNKNOWN:
        word = "deny" if verdict(policies, known).action.is_deny else "allow"
        assert word == given.verdict
