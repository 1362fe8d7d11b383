# SPDX-License-Identifier: Apache-2.0
"""ICMP errors about packets behind SNAT, in both directions, and their fragments, byte for byte."""

import pytest

from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support.node_under_test import (
    NODE,
    UPLINK,
    WORLD,
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    Host,
    Payload,
    echo,
    echo_reply,
    frame,
    icmp,
    icmp6,
    inner,
    sctp,
    tcp,
    udp,
)
from tests.kernel.support.service_error_frames import (
    error,
    fragments,
)
from tests.kernel.support.snat_frames import (
    HIGH,
    LOW,
    OTHER,
    answer,
    answered,
    families,
    left,
    loaded,
    out,
    port_of,
    sent,
)
from tests.kernel.support.table_policy import ANY

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
ROUTER = Host(WORLD.mac, "198.51.100.1", "2001:db8:51::1")
"""Somebody on the way, or the other side itself."""


def time_exceeded(family: int, quoted: bytes, much: bool = False) -> Payload:
    """As traceroute looks for."""
    part = quoted if much else quoted[: (20 if family == 4 else 40) + 8]
    return icmp(11, 0, 0, 0, part) if family == 4 else icmp6(3, 0, 0, 0, part)


def answer_to(proto: str, port: int, family: int) -> Payload:
    return {
        "TCP": lambda: tcp(80, port, SYN | ACK),
        "UDP": lambda: udp(80, port),
        "SCTP": lambda: sctp(80, port, 2),
        "echo": lambda: echo_reply(family, port),
    }[proto]()


def request(proto: str, port: int, family: int) -> Payload:
    return {
        "TCP": lambda: tcp(port, 80, SYN),
        "UDP": lambda: udp(port, 80),
        "SCTP": lambda: sctp(port, 80, 1),
        "echo": lambda: echo(family, port),
    }[proto]()


PROTOCOLS = pytest.mark.parametrize(
    ("proto", "much"),
    [("TCP", False), ("TCP", True), ("UDP", False), ("SCTP", False), ("echo", False)],
    ids=str,
)


@families
@PROTOCOLS
@pytest.mark.parametrize("make", [error, time_exceeded])
@pytest.mark.parametrize("reporter", [ROUTER, WORLD], ids=["a router", "the other side"])
def test_an_error_about_a_pods_packet_reaches_the_pod(
    node: NodeUnderTest, family: int, proto: str, much: bool, make, reporter: Host
) -> None:
    """It quotes the packet on the wire. The pod gets a quote of the packet that it sent."""
    loaded(node)
    went = out(node, request(proto, 4000, family), family)
    assert went is not None
    port = port_of(went, family)
    told = make(family, inner(sent(request(proto, 4000, family), family)), much)
    came = node.comes_in(answer(make(family, inner(went), much), family, by=reporter))
    assert came == answered(told, family, by=reporter)
    assert node.arrives("a", came) == came
    assert (port == 4000) == (proto == "SCTP")
    assert node.drops() == {}


@families
@PROTOCOLS
@pytest.mark.parametrize("by", ["the pod", "the node"])
def test_an_error_about_a_reply_reaches_the_server(
    node: NodeUnderTest, family: int, proto: str, much: bool, by: str
) -> None:
    """The pod sends it, or the node's stack, which could not deliver the reply."""
    loaded(node)
    port = port_of(out(node, request(proto, 4000, family), family), family)
    back = answer_to(proto, port, family)
    came = node.comes_in(answer(back, family))
    assert came == answered(answer_to(proto, 4000, family), family)
    about = error(family, inner(came), much)
    told = error(family, inner(answer(back, family)), much)
    if by == "the node":
        assert node.goes_out(left(about, family), pod=None) == left(told, family)
    else:
        assert node.sent_by("a", frame(A, WORLD, about, family=family))
        assert node.goes_out(sent(about, family)) == left(told, family)
    assert node.drops() == {}


@families
def test_an_error_about_no_connection_is_not_translated(node: NodeUnderTest, family: int) -> None:
    """From outside it passes unchanged. It never leaves under a pod's address."""
    loaded(node)
    assert out(node, udp(LOW, 80), family) == left(udp(LOW, 80), family)
    for quoted in (
        left(udp(LOW + 1, 80), family),
        left(udp(LOW, 81), family),
        left(udp(LOW, 80), family, to=OTHER),
        frame(NODE, WORLD, udp(LOW, 80), family=family, saddr=OTHER.address(family)),
        sent(udp(LOW, 80), family),
    ):
        given = answer(error(family, inner(quoted)), family, by=ROUTER)
        assert node.comes_in(given) == given
    about = error(family, inner(answered(udp(80, LOW + 1), family)))
    assert node.goes_out(sent(about, family)) is None
    assert node.drops() == {"not masqueraded": 1}
    given = left(about, family)
    assert node.goes_out(given, pod=None) == given


@families
@pytest.mark.parametrize("who", [B, NODE], ids=["a pod", "the node"])
def test_an_external_error_with_the_source_of_a_pod_or_the_node_is_dropped(
    node: NodeUnderTest, family: int, who: Host
) -> None:
    loaded(node)
    went = out(node, udp(LOW, 80), family)
    assert went is not None
    lie = answer(error(family, inner(went)), family, by=who)
    assert node.comes_in(lie) is None
    assert node.drops() == {"spoofed ip": 1}


@families
def test_an_error_about_an_external_clients_connection_keeps_the_pods_address(
    node: NodeUnderTest, family: int
) -> None:
    node.load(
        node.policy().allow_ingress("world", "a", ANY), uplinks=[UPLINK],
        masquerade=Masquerade(range(LOW, HIGH)),
    )  # fmt: skip
    came = frame(WORLD, A, udp(LOW, 80), family=family)
    assert node.comes_in(came) == came and node.sent_to("a", came)
    said = sent(error(family, inner(came)), family)
    assert node.sent_by("a", frame(A, WORLD, error(family, inner(came)), family=family))
    assert node.goes_out(said) == said
    assert node.drops() == {}


@families
def test_fragments_follow_their_first(node: NodeUnderTest, family: int) -> None:
    loaded(node)
    gateway, here = Host(WORLD.mac, "", ""), Host(NODE.mac, "", "")
    port = port_of(out(node, udp(4000, 53), family), family)
    for _ in range(2):
        said = fragments(A, gateway, (4000, 53), family, A, WORLD)
        assert all(node.leaves("a", each) == each for each in said)
        went = fragments(A, gateway, (port, 53), family, NODE, WORLD)
        assert tuple(node.goes_out(each) for each in said) == went
        back = fragments(gateway, here, (53, port), family, WORLD, NODE)
        came = fragments(gateway, here, (53, 4000), family, WORLD, A)
        assert tuple(node.comes_in(each) for each in back) == came
        assert tuple(node.arrives("a", each) for each in came) == came
    assert node.drops() == {}


@families
def test_a_fragment_without_its_first_is_not_translated(node: NodeUnderTest, family: int) -> None:
    """A pod's is dropped, an external host's passes. Fragments of an excepted datagram pass."""
    loaded(node)
    gateway, here = Host(WORLD.mac, "", ""), Host(NODE.mac, "", "")
    _, later = fragments(A, gateway, (4000, 53), family, A, WORLD)
    assert node.goes_out(later) is None
    assert node.drops() == {"fragment": 1}
    _, back = fragments(gateway, here, (53, LOW), family, WORLD, NODE)
    assert node.comes_in(back) == back
    loaded(node, excepted=("0.0.0.0/0", "::/0"))
    for each in fragments(A, gateway, (4000, 53), family, A, WORLD):
        assert node.goes_out(each) == each
    loaded(node, ports=range(LOW, LOW + 1))
    assert out(node, udp(4001, 53), family)
    first, later = fragments(A, gateway, (4000, 53), family, A, WORLD)
    assert node.goes_out(first) is None and node.goes_out(later) is None
