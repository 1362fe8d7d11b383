# SPDX-License-Identifier: Apache-2.0
"""Connections: replies, requests of the opposite direction, changes of policy, ends and reuse."""

from collections.abc import Callable

import pytest

from policyc.runtime.kernel import clock
from tests.kernel.support import ticks
from tests.kernel.support.node_under_test import (
    NODE,
    WORLD,
    A,
    B,
    NodeUnderTest,
    endpoint,
)
from tests.kernel.support.packets import (
    ACK,
    FIN,
    PSH,
    RST,
    SYN,
    Payload,
    frame,
    inner,
    raw,
    sctp,
    tcp,
    udp,
    unreachable,
)
from tests.kernel.support.table_policy import (
    ANY,
    Service,
    sctp_port,
    service,
    tcp_port,
    udp_port,
)

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
families = pytest.mark.parametrize("family", [4, 6])


@families
def test_a_reply_passes_and_a_request_of_the_opposite_direction_does_not(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    request = frame(A, B, tcp(1000, 80, SYN), family=family)
    assert not node.sent_by("b", frame(B, A, tcp(80, 1000, SYN | ACK), family=family))
    assert node.sent_by("a", request)
    assert node.sent_to("b", request, came_in="pca")
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, SYN | ACK), family=family))
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, ACK), family=family))
    assert not node.sent_by("b", frame(B, A, tcp(2000, 80, SYN), family=family))
    assert not node.sent_by("b", frame(B, A, tcp(80, 1000, SYN), family=family))
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, ACK), family=family))
    assert node.drops() == {"policy": 3}


@families
@pytest.mark.parametrize(
    ("there", "back", "other", "allowed"),
    [
        (udp(53000, 53), udp(53, 53000), udp(53, 53001), udp_port(53)),
        (sctp(5000, 7, 1), sctp(7, 5000, 2), sctp(7, 5000, 1), sctp_port(7)),
        (raw(47, bytes(8)), raw(47, bytes(8)), raw(50, bytes(8)), service(5, 47)),
    ],
    ids=["udp", "sctp", "gre"],
)
def test_replies_pass_for_every_protocol_and_its_ports(
    node: NodeUnderTest,
    family: int,
    there: Payload,
    back: Payload,
    other: Payload,
    allowed: Service,
) -> None:
    node.load(node.policy().allow("a", "b", allowed))
    assert not node.sent_by("b", frame(B, A, back, family=family))
    assert node.sent_by("a", frame(A, B, there, family=family))
    assert node.sent_by("b", frame(B, A, back, family=family))
    assert not node.sent_by("b", frame(B, A, other, family=family))


def test_protocols_do_not_share_conntrack_entries(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert not node.sent_by("a", frame(A, B, udp(1000, 80)))
    assert not node.sent_by("a", frame(A, B, sctp(1000, 80)))


@pytest.mark.parametrize("side", ["egress", "ingress"])
def test_a_denial_at_either_end_drops_the_packet(node: NodeUnderTest, side: str) -> None:
    policy = node.policy()
    node.load(
        policy.allow_egress("a", "b", ANY)
        if side == "egress"
        else policy.allow_ingress("a", "b", ANY)
    )
    assert not node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert node.connections() == []


def test_a_denied_flow_leaves_no_entry(node: NodeUnderTest) -> None:
    node.load(node.policy())
    assert not node.sent_by("a", frame(A, B, udp(1, 2)))
    assert not node.sent_to("b", frame(WORLD, B, udp(1, 2)))
    assert node.connections() == []


def test_counts_name_the_rule_that_decided(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("world", "b", tcp_port(80)))
    for _ in range(3):
        assert node.sent_to("b", frame(WORLD, B, tcp(1000, 80, SYN)))
    assert not node.sent_to("b", frame(WORLD, B, tcp(1000, 81, SYN)))
    found = node.status()
    assert found is not None
    assert [(rule.rule, rule.packets, rule.action) for rule in found.rules] == [
        (2, 1, "allow"),
        (3, 1, "deny"),
    ]
    assert "shop.yaml:12" in found.rules[0].where


@families
@pytest.mark.parametrize("first", ["request", "reply"])
def test_a_change_of_policy_decides_a_connection_again_in_its_opening_direction(
    node: NodeUnderTest, family: int, first: str
) -> None:
    """B may not open a connection to a. A reply decided as a request would be dropped."""
    request = frame(A, B, tcp(1000, 80, ACK), family=family)
    reply = frame(B, A, tcp(80, 1000, ACK), family=family)
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN), family=family))
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, SYN | ACK), family=family))

    node.load(node.policy().allow("a", "b", tcp_port(80)))
    assert node.sent_by("b", reply) if first == "reply" else node.sent_by("a", request)
    assert node.sent_by("b", reply)
    assert node.sent_by("a", request)
    (entry,) = node.connections(family)
    assert int.from_bytes(entry["epoch"], "little") == 2

    node.load(node.policy().allow("b", "a", ANY))
    for _ in range(2):
        assert not (node.sent_by("b", reply) if first == "reply" else node.sent_by("a", request))
        assert not (node.sent_by("a", request) if first == "reply" else node.sent_by("b", reply))


def test_a_spoofed_packet_does_not_renew_a_stale_connection(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    assert not node.sent_by("b", frame(A, B, tcp(1000, 80, ACK)))
    assert node.drops() == {"spoofed ip": 1}
    (entry,) = node.connections()
    assert int.from_bytes(entry["epoch"], "little") == 1


def test_an_expired_connection_passes_no_reply(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)))
    assert node.sent_by("a", frame(A, B, udp(5000, 53)))
    assert node.sent_by("b", frame(B, A, udp(53, 5000)))
    node.expire_connections()
    assert not node.sent_by("b", frame(B, A, udp(53, 5000)))
    assert node.sent_by("a", frame(A, B, udp(5000, 53)))
    assert node.sent_by("b", frame(B, A, udp(53, 5000)))


def _flow_id(node: NodeUnderTest) -> bytes:
    (entry,) = node.connections()
    return entry["flow_id"]


def _lives_for(node: NodeUnderTest) -> float:
    """Seconds until the only connection expires."""
    (entry,) = node.connections()
    left = int.from_bytes(entry["expires"], "little") - ticks.ticks() & 0xFFFFFFFF
    return left / clock.ticks_per_second()


def test_tcp_closes_from_both_ends_and_its_ports_are_used_again(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert _lives_for(node) < 61
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, SYN | ACK)))
    assert _lives_for(node) > 7200
    flow = _flow_id(node)
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, FIN | ACK)))
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, ACK, b"half-closed")))
    assert 60 < _lives_for(node) < 3700
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, FIN | ACK)))
    assert _lives_for(node) < 31
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, ACK)))
    assert _flow_id(node) == flow
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert _flow_id(node) != flow
    assert 31 < _lives_for(node) < 61


def test_a_reset_ends_a_connection(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, RST | ACK)))
    assert _lives_for(node) < 11


def test_a_new_syn_after_the_end_is_decided_again(node: NodeUnderTest) -> None:
    """The entry of the connection that ended must not answer for the next one."""
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, RST | ACK)))
    before = _decided(node)
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert _decided(node) == before + 2  # egress of a, ingress of b


def _decided(node: NodeUnderTest) -> int:
    found = node.status()
    assert found is not None
    return sum(rule.packets for rule in found.rules)


def test_an_established_connection_runs_no_first_packet_program(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, SYN | ACK)))
    before = _decided(node)
    for _ in range(5):
        assert node.sent_by("a", frame(A, B, tcp(1000, 80, ACK)))
        assert node.sent_by("b", frame(B, A, tcp(80, 1000, ACK)))
    assert _decided(node) == before


def test_replies_from_outside_the_cluster_pass(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "world", tcp_port(443)))
    reply = frame(WORLD, A, tcp(443, 1000, SYN | ACK))
    assert not node.sent_to("a", reply)
    assert node.sent_by("a", frame(A, WORLD, tcp(1000, 443, SYN)))
    assert node.sent_to("a", reply)
    assert not node.sent_to("a", frame(WORLD, A, tcp(443, 1001, SYN | ACK)))


@families
def test_a_pod_cannot_block_itself(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy())
    packet = frame(A, A, tcp(1000, 80, SYN), family=family)
    assert node.sent_by("a", packet)
    assert node.sent_to("a", packet, came_in="pca")


TALK = [
    (tcp(1000, 80, SYN), tcp(80, 1000, SYN | ACK), tcp(1000, 80, ACK), tcp(80, 1000, PSH | ACK)),
    (udp(1000, 80), udp(80, 1000), udp(1000, 80), udp(80, 1000)),
    (sctp(1000, 80, chunk=1), sctp(80, 1000, chunk=2), sctp(1000, 80), sctp(80, 1000)),
]
talks = pytest.mark.parametrize("talk", TALK, ids=["tcp", "udp", "sctp"])


@families
@talks
@pytest.mark.parametrize("first", ["pod", "node"])
def test_a_retransmission_of_the_node_does_not_reopen_a_pods_denied_connection(
    node: NodeUnderTest, family: int, talk: tuple[Payload, ...], first: str
) -> None:
    """The node's retransmission must not make the node the client."""
    opening, answer, request, again = (
        frame(*((NODE, A) if nth % 2 else (A, NODE)), payload, family=family)
        for nth, payload in enumerate(talk)
    )
    node.load(node.policy().allow("a", "world", ANY))
    assert node.sent_by("a", opening)
    assert node.sent_by_node_to("a", answer)
    for _ in range(2):
        node.load(node.policy())
        if first == "pod":
            assert not node.sent_by("a", request)
        assert node.sent_by_node_to("a", again)
        assert not node.sent_by("a", request)
        assert node.sent_by_node_to("a", again)
        assert not node.sent_by("a", request)
    unreachable_ = frame(A, NODE, unreachable(family, inner(again)), family=family)
    assert not node.sent_by("a", unreachable_)
    node.load(node.policy().allow("a", "world", ANY))
    assert node.sent_by("a", request)
    assert node.sent_by("a", request)
    assert node.sent_by_node_to("a", again)


def test_the_node_opens_a_connection_that_the_pod_may_not_open(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "world", ANY))
    assert node.sent_by("a", frame(A, NODE, tcp(1000, 80, SYN)))
    node.load(node.policy())
    assert not node.sent_by("a", frame(A, NODE, tcp(1000, 80, ACK)))
    assert node.sent_by_node_to("a", frame(NODE, A, tcp(80, 1000, SYN)))
    assert node.sent_by("a", frame(A, NODE, tcp(1000, 80, SYN | ACK)))


@pytest.mark.parametrize("make", [tcp, sctp])
def test_a_segment_without_a_syn_does_not_make_the_node_the_client(
    node: NodeUnderTest, make: Callable[[int, int], Payload]
) -> None:
    """The node's socket would (tests/attacks/test_revoked_connection.py)."""
    for _ in range(2):
        node.load(node.policy())
        assert node.sent_by_node_to("a", frame(NODE, A, make(40000, 80)))
        assert not node.sent_by("a", frame(A, NODE, make(80, 40000)))


def test_an_ignored_reset_does_not_make_the_node_the_client(
    node: NodeUnderTest,
) -> None:
    node.load(node.policy().allow("a", "world", ANY))
    assert node.sent_by("a", frame(A, NODE, tcp(1000, 80, SYN)))
    assert node.sent_by("a", frame(A, NODE, tcp(1000, 80, RST)))
    node.expire_connections()
    assert node.sent_by_node_to("a", frame(NODE, A, tcp(80, 1000, ACK)))
    node.load(node.policy())
    assert not node.sent_by("a", frame(A, NODE, tcp(1000, 80, ACK)))


@pytest.mark.parametrize("first", ["pod", "node"])
def test_the_nodes_connection_follows_an_address_to_another_device(
    node: NodeUnderTest, first: str
) -> None:
    node.load(node.policy(), entries=[endpoint("b", B, "pcb")])
    assert node.sent_by_node_to("b", frame(NODE, B, udp(9000, 8125)))
    node.load(node.policy(), entries=[endpoint("b", B, "pca")])
    if first == "node":
        assert node.sent_by_node_to("a", frame(NODE, B, udp(9000, 8125)))
    for _ in range(3):
        assert node.sent_by("a", frame(B, NODE, udp(8125, 9000)))
    assert not node.sent_by("b", frame(B, NODE, udp(8125, 9000)))
