# SPDX-License-Identifier: Apache-2.0
"""SNAT on a node under host policy: the node's own connections from SNAT ports."""

from functools import partial

import pytest

from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support.fragments import two_pieces
from tests.kernel.support.host_policy_frames import under_host_policy
from tests.kernel.support.node_under_test import (
    NODE,
    UPLINK,
    WORLD,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    Payload,
    echo,
    echo_reply,
    frame,
    inner,
    tcp,
    udp,
    unreachable,
)
from tests.kernel.support.snat_frames import (
    answer,
    answered,
    left,
    out,
    port_of,
    sent,
)
from tests.kernel.support.table_policy import (
    ANY,
    TablePolicy,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
MAY = under_host_policy().allow("a", "world", ANY).allow_egress("host", "world", ANY)
MAY_NOT = under_host_policy().allow("a", "world", ANY)
LOW, PORTS = 50007, range(50000, 50101)


def loaded(node: NodeUnderTest, policy: TablePolicy) -> None:
    node.load(policy, uplinks=[UPLINK], masquerade=Masquerade(PORTS))


def own(node: NodeUnderTest, payload: Payload, family: int) -> bytes | None:
    """The node's own packet, as it leaves."""
    return node.goes_out(frame(NODE, WORLD, payload, family=family), pod=None)


def pair(protocol: str, family: int, port: int) -> tuple[Payload, Payload]:
    """There and back."""
    if protocol == "echo":
        return echo(family, port), echo_reply(family, port)
    if protocol == "UDP":
        return udp(port, 1053), udp(1053, port)
    return tcp(port, 80, SYN), tcp(80, port, SYN | ACK)


protocols = pytest.mark.parametrize("protocol", ["TCP", "UDP", "echo"])


@families
@protocols
def test_host_policy_decides_replies_to_a_translated_port_of_the_node(
    node: NodeUnderTest, family: int, protocol: str
) -> None:
    """A pod has the port. A policy that denies the node's connection ends it."""
    loaded(node, MAY)
    there, back = pair(protocol, family, LOW)
    assert out(node, there, family) == left(there, family)
    assert own(node, there, family)
    port = port_of(own(node, there, family), family)
    assert port in PORTS and port != LOW
    there_then, back_then = pair(protocol, family, port)
    assert node.comes_in(answer(back_then, family)) == answer(back, family)
    loaded(node, MAY_NOT)
    assert node.comes_in(answer(back_then, family)) is None
    assert own(node, there, family) is None
    assert node.drops() == {"policy": 2}
    assert node.comes_in(answer(back, family)) == answered(back, family)
    error = unreachable(family, inner(frame(NODE, WORLD, there_then, family=family)))
    assert node.comes_in(answer(error, family)) is None, "an error about a denied packet"


pieces = partial(two_pieces, WORLD, NODE, 1053)


@pytest.mark.both_families
@families
def test_fragments_of_replies_to_a_translated_port_follow_their_first(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node, MAY)
    assert out(node, udp(LOW, 1053), family)
    assert own(node, udp(LOW, 1053), family)
    port = port_of(own(node, udp(LOW, 1053), family), family)
    assert all(node.comes_in(each) for each in pieces(port, family, 1))
    loaded(node, MAY_NOT)
    assert [node.comes_in(each) for each in pieces(port, family, 2)] == [None, None]
    assert node.comes_in(pieces(port, family, 3)[1]) is None, "its first was not seen"


@families
@protocols
def test_every_packet_of_a_node_connection_leaves_by_the_same_translated_port(
    node: NodeUnderTest, family: int, protocol: str
) -> None:
    """Policy decides by the node's own port, also after a change of policy."""
    loaded(node, MAY)
    there, back = pair(protocol, family, LOW)
    assert out(node, there, family) == left(there, family)
    first = own(node, there, family)
    port = port_of(first, family)
    assert port in PORTS and port != LOW
    there_then, back_then = pair(protocol, family, port)
    for _ in range(2):
        assert own(node, there, family) == first == left(there_then, family)
        assert node.comes_in(answer(back_then, family)) == answer(back, family)
        assert node.comes_in(answer(back, family)) == answered(back, family)
        assert out(node, there, family) == left(there, family)
        loaded(node, MAY)
    assert node.drops() == {}


@families
def test_no_pod_gets_a_port_that_the_node_uses(node: NodeUnderTest, family: int) -> None:
    """From the first packet of the node's connection on."""
    loaded(node, MAY)
    there = tcp(LOW, 80, SYN)
    assert own(node, there, family) == left(there, family)
    port = port_of(out(node, there, family), family)
    assert port in PORTS and port != LOW
    assert node.goes_out(sent(there, family)) == left(tcp(port, 80, SYN), family)


@families
def test_a_node_connection_without_a_free_snat_port_is_dropped(
    node: NodeUnderTest, family: int
) -> None:
    node.load(MAY, uplinks=[UPLINK], masquerade=Masquerade(range(LOW, LOW + 1)))
    assert out(node, tcp(LOW, 80, SYN), family)
    assert own(node, tcp(LOW, 80, SYN), family) is None
    assert own(node, tcp(4000, 80, SYN), family) == left(tcp(4000, 80, SYN), family)
    assert node.drops() == {"no port": 1}
