# SPDX-License-Identifier: Apache-2.0
"""A pod sends to the node port of another node: the pod's hook translates it, byte for byte."""

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from tests.kernel.support.answers import (
    REDIRECT,
    answer_of,
)
from tests.kernel.support.exposed_services import (
    NODE_PORT,
    exposed,
)
from tests.kernel.support.hairpin_frames import (
    comes_back,
    reply,
    request,
)
from tests.kernel.support.node_under_test import (
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    Host,
    Payload,
    frame,
    packed,
    tcp,
    udp,
    unreachable,
)
from tests.kernel.support.service_error_frames import (
    answered,
    error,
    fragments,
    seen,
)
from tests.kernel.support.service_frames import (
    GATEWAY,
    answer,
    as_to,
    ports_of,
)
from tests.kernel.support.service_pair import (
    ServicePair,
    pair,
)
from tests.kernel.support.service_yaml import TARGET
from tests.kernel.support.table_policy import (
    ANY,
    tcp_port,
)

__all__ = ["pair"]
pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
OTHER = Host(GATEWAY, "10.0.1.1", "fd00:1::1")
"""Node 2, which pod c is on."""
THIRD = Host(GATEWAY, "10.0.2.1", "fd00:2::1")
NODES = {"node-2": (OTHER.ip4, OTHER.ip6), "node-3": (THIRD.ip4, THIRD.ip6)}


@pytest.fixture(autouse=True)
def nodes(node: NodeUnderTest) -> None:
    node.other_nodes = dict(NODES)


def behind(*hosts: Host, protocol: str = "TCP", **spec: object) -> list[JsonValue]:
    places = [(each, "node-2" if each == C else "node-1") for each in hosts]
    return exposed(*places, protocol=protocol, externalIPs=[], **spec)


def to_node(payload: Payload, family: int = 4, node: Host = OTHER) -> bytes:
    return frame(A, node, payload, family=family)


@pytest.mark.both_families
@families
@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_request_and_reply_are_translated(node: NodeUnderTest, family: int, protocol: str) -> None:
    """Policy decides about the endpoint, and allows nothing else."""
    node.load(node.policy().allow("a", "c", ANY), services=behind(C, protocol=protocol))
    for flags in (SYN, ACK, ACK, ACK):
        there = {"TCP": tcp(4000, TARGET, flags, b"odd"), "UDP": udp(4000, TARGET)}[protocol]
        asked = {"TCP": tcp(4000, NODE_PORT, flags, b"odd"), "UDP": udp(4000, NODE_PORT)}[protocol]
        back = {"TCP": tcp(TARGET, 4000, flags | ACK), "UDP": udp(TARGET, 4000)}[protocol]
        said = {"TCP": tcp(NODE_PORT, 4000, flags | ACK), "UDP": udp(NODE_PORT, 4000)}[protocol]
        assert node.leaves("a", to_node(asked, family)) == as_to(C, there, family)
        assert node.arrives("a", answer(C, back, family)) == answer(OTHER, said, family)
    assert node.drops() == {}
    assert len(node.table(f"pc_ct{family}")) == 2, "both entries are where nothing is evicted"


@families
def test_policy_sees_the_endpoint(node: NodeUnderTest, family: int) -> None:
    policy = node.policy().allow("a", "c", tcp_port(NODE_PORT)).allow("a", "world", ANY)
    node.load(policy, services=behind(C))
    assert node.leaves("a", to_node(tcp(4000, NODE_PORT, SYN), family)) is None
    assert node.drops() == {"policy": 1}


@families
def test_the_ports_of_two_nodes_with_one_endpoint_are_two_connections(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=behind(C))
    syn = tcp(4000, NODE_PORT, SYN)
    assert node.leaves("a", to_node(syn, family)) == as_to(C, tcp(4000, TARGET, SYN), family)
    second = node.leaves("a", to_node(syn, family, THIRD))
    sport, dport = ports_of(second, family)
    assert sport != 4000 and dport == TARGET
    got = node.arrives("a", answer(C, tcp(TARGET, sport, SYN | ACK), family))
    assert got == answer(THIRD, tcp(NODE_PORT, 4000, SYN | ACK), family)
    got = node.arrives("a", answer(C, tcp(TARGET, 4000, SYN | ACK), family))
    assert got == answer(OTHER, tcp(NODE_PORT, 4000, SYN | ACK), family)


@families
def test_a_node_port_with_local_traffic_policy_is_left_to_its_node(
    node: NodeUnderTest, family: int
) -> None:
    local = behind(B, C, externalTrafficPolicy="Local")
    node.load(node.policy().allow("a", "world", ANY), services=local)
    sent = to_node(tcp(4000, NODE_PORT, SYN), family)
    assert node.leaves("a", sent) == sent
    said = answer(OTHER, tcp(NODE_PORT, 4000, SYN | ACK), family)
    assert node.arrives("a", said) == said


@pytest.mark.both_families
@families
def test_packets_to_other_ports_and_addresses_are_not_translated(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "world", ANY), services=behind(C))
    for host, payload in (
        (OTHER, tcp(4000, NODE_PORT + 1, SYN)),
        (OTHER, udp(4000, NODE_PORT)),
        (WORLD, tcp(4000, NODE_PORT, SYN)),
    ):
        sent = frame(A, host, payload, family=family)
        assert node.leaves("a", sent) == sent


@pytest.mark.both_families
@families
def test_a_node_without_known_addresses_translates_no_node_port(
    node: NodeUnderTest, family: int
) -> None:
    node.node_addresses = ()
    node.load(node.policy().allow("a", "world", ANY), services=behind(C))
    sent = to_node(tcp(4000, NODE_PORT, SYN), family)
    assert node.leaves("a", sent) == sent


@pytest.mark.both_families
@families
def test_an_external_ip_of_this_node_is_not_translated_at_other_nodes(
    node: NodeUnderTest, family: int
) -> None:
    own = node.node_addresses[family == 6]
    services = behind(C)
    services[0].raw["spec"]["externalIPs"] = [own]
    node.load(node.policy().allow("a", "world", ANY).allow("a", "c", ANY), services=services)
    port = services[0].raw["spec"]["ports"][0]["port"]
    sent = to_node(tcp(4000, port, SYN), family)
    assert node.leaves("a", sent) == sent


@pytest.mark.both_families
@families
def test_a_node_port_without_endpoints_is_refused_from_the_nodes_address(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy(), services=behind())
    verdict, found = node.answered("a", to_node(tcp(4000, NODE_PORT, SYN), family))
    assert verdict == REDIRECT
    expected = (packed(OTHER.address(family)), packed(A.address(family)))
    assert answer_of(found).addresses == expected
    assert node.drops() == {"no backend": 1}


@pytest.mark.both_families
@families
def test_an_endpoint_that_equals_the_node_port_is_reached_untranslated(
    node: NodeUnderTest, family: int
) -> None:
    """It is a hostNetwork pod of that node. At a third node's port it is reached translated."""
    places = [(OTHER, "node-2")]
    services = exposed(*places, externalIPs=[])
    for each in services[1:]:
        each.raw["ports"][0]["port"] = NODE_PORT
    node.load(node.policy().allow("a", "world", ANY), services=services)
    sent = to_node(tcp(4000, NODE_PORT, SYN), family)
    assert node.leaves("a", sent) == sent
    moved = node.leaves("a", to_node(tcp(4001, NODE_PORT, SYN), family, THIRD))
    assert moved == as_to(OTHER, tcp(4001, NODE_PORT, SYN), family)


@families
def test_a_pod_that_is_the_only_endpoint_reaches_itself(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy(), services=behind(A))
    for flags in (SYN, ACK, ACK):
        got = comes_back(node, to_node(tcp(4000, NODE_PORT, flags), family))
        assert got == request(tcp(4000, TARGET, flags), family)
        got = comes_back(node, reply(tcp(TARGET, 4000, flags | ACK), family))
        assert got == frame(OTHER, A, tcp(NODE_PORT, 4000, flags | ACK), family=family)
    assert node.drops() == {}


@families
def test_a_removed_node_ends_connections_to_its_node_port(node: NodeUnderTest, family: int) -> None:
    """A node that gets the same number does not inherit them."""
    policy = node.policy().allow("a", "c", ANY)
    node.load(policy, services=behind(C))
    for flags in (SYN, ACK):
        assert node.leaves("a", to_node(tcp(4000, NODE_PORT, flags), family))
        assert node.arrives("a", answer(C, tcp(TARGET, 4000, flags | ACK), family))
    node.other_nodes = {"node-3": NODES["node-3"]}
    node.load(policy)
    assert node.leaves("a", to_node(tcp(4000, NODE_PORT), family)) is None
    node.other_nodes |= {"node-4": ("10.0.4.1", "fd00:4::1")}
    node.load(policy)
    assert node.leaves("a", to_node(tcp(4000, NODE_PORT), family)) is None
    assert node.drops() == {"policy": 2}, "it is an address as any other"


@families
def test_a_change_of_policy_decides_a_connection_again(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=behind(C))
    assert node.leaves("a", to_node(tcp(4000, NODE_PORT, SYN), family))
    assert node.arrives("a", answer(C, tcp(TARGET, 4000, SYN | ACK), family))
    node.load(node.policy().allow("a", "c", tcp_port(TARGET)))
    sent = node.leaves("a", to_node(tcp(4000, NODE_PORT), family))
    assert sent == as_to(C, tcp(4000, TARGET), family)
    got = node.arrives("a", answer(C, tcp(TARGET, 4000), family))
    assert got == answer(OTHER, tcp(NODE_PORT, 4000), family)
    node.load(node.policy())
    assert node.leaves("a", to_node(tcp(4000, NODE_PORT), family)) is None


@pytest.mark.both_families
@families
def test_errors_quote_the_node_port(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=behind(C, protocol="UDP"))
    assert node.leaves("a", to_node(udp(4000, NODE_PORT), family))
    reporter = Host(GATEWAY, C.ip4, C.ip6)
    about = error(family, seen(C, udp(4000, TARGET), family))
    expected = error(family, seen(OTHER, udp(4000, NODE_PORT), family))
    got = node.arrives("a", frame(reporter, A, about, family=family))
    assert got == frame(OTHER, A, expected, family=family)
    about = unreachable(family, answered(OTHER, udp(NODE_PORT, 4000), family))
    expected = unreachable(family, answered(C, udp(TARGET, 4000), family))
    sent = node.leaves("a", frame(A, OTHER, about, family=family))
    assert sent == frame(A, OTHER, expected, family=family, daddr=C.address(family))


@pytest.mark.both_families
@families
def test_fragments_follow_their_first(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "c", ANY), services=behind(C, protocol="UDP"))
    asked, said = (4000, NODE_PORT), (NODE_PORT, 4000)
    for sent, expected in zip(
        fragments(A, OTHER, asked, family, A, OTHER),
        fragments(A, OTHER, (4000, TARGET), family, A, C),
        strict=True,
    ):
        assert node.leaves("a", sent) == expected
    for came, expected in zip(
        fragments(OTHER, A, (TARGET, 4000), family, C, A),
        fragments(OTHER, A, said, family, OTHER, A),
        strict=True,
    ):
        assert node.arrives("a", came) == expected


@families
def test_an_endpoint_on_the_pods_node_is_reached_directly(
    pair: ServicePair, node: NodeUnderTest, family: int
) -> None:
    """Through the other node, its packets would return with a spoofed source."""
    pair.vip, pair.port = OTHER, NODE_PORT
    node.load(node.policy().allow("a", "b", ANY), services=behind(B))
    pair.shake_hands(family)
    for data in (b"", b"odd"):
        done = pair.send("a", pair.asks(tcp(4000, NODE_PORT, ACK, data), family))
        expected = pair.forwarded("b", tcp(4000, TARGET, ACK, data), family)
        assert (done.verdict, done.frame) == (REDIRECT, expected)
        done = pair.send("b", pair.answers(tcp(TARGET, 4000, ACK, data), family))
        expected = pair.forwarded("a", tcp(NODE_PORT, 4000, ACK, data), family)
        assert (done.verdict, done.frame) == (REDIRECT, expected)
    assert node.drops() == {}
