# SPDX-License-Identifier: Apache-2.0
"""ICMP: echo replies, errors about allowed connections. Policy decides all other messages."""

import pytest

from tests.kernel.support.node_under_test import (
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    SYN,
    Host,
    Payload,
    echo,
    echo_reply,
    frame,
    icmp,
    icmp6,
    inner,
    tcp,
    udp,
    unreachable,
)
from tests.kernel.support.table_policy import (
    PING4,
    PING6,
    service,
    tcp_port,
    udp_port,
)

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
families = pytest.mark.parametrize("family", [4, 6])
ROUTER = Host("02:00:00:00:00:dd", "192.0.2.1", "2001:db8:1::1")


@families
@pytest.mark.parametrize("ident", [0, 7, 0x0D00])
def test_an_echo_is_answered_and_not_returned(node: NodeUnderTest, family: int, ident: int) -> None:
    """An id of 0 makes both requests look alike. 0x0d00 looks like the type of another message."""
    node.load(node.policy().allow("a", "b", PING4, PING6))
    assert not node.sent_by("b", frame(B, A, echo_reply(family, ident), family=family))
    assert node.sent_by("a", frame(A, B, echo(family, ident), family=family))
    assert node.sent_by("b", frame(B, A, echo_reply(family, ident), family=family))
    assert node.sent_by("b", frame(B, A, echo_reply(family, ident), family=family))
    assert not node.sent_by("b", frame(B, A, echo(family, ident), family=family))
    assert not node.sent_by("b", frame(B, A, echo_reply(family, ident + 1), family=family))
    assert node.sent_by("b", frame(B, A, echo_reply(family, ident), family=family))


@families
def test_an_echo_request_allows_no_other_icmp_reply(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "b", PING4, PING6))
    kind = 13 if family == 4 else 139
    other = icmp(kind) if family == 4 else icmp6(kind)
    assert node.sent_by("a", frame(A, B, echo(family, kind << 8), family=family))
    assert not node.sent_by("a", frame(A, B, other, family=family))
    assert not node.sent_by("b", frame(B, A, other, family=family))


@families
def test_a_stale_echo_reply_is_judged_as_the_request(node: NodeUnderTest, family: int) -> None:
    policy = node.policy().allow("a", "b", PING4, PING6)
    node.load(policy)
    assert node.sent_by("a", frame(A, B, echo(family), family=family))
    node.load(policy)
    assert node.sent_by("b", frame(B, A, echo_reply(family), family=family))
    node.load(node.policy())
    assert not node.sent_by("b", frame(B, A, echo_reply(family), family=family))


@families
def test_other_messages_have_no_replies(node: NodeUnderTest, family: int) -> None:
    kind = 13 if family == 4 else 139
    other: Payload = icmp(kind) if family == 4 else icmp6(kind)
    node.load(node.policy().allow("a", "b", service(3 if family == 4 else 4, kind << 8)))
    assert node.sent_by("a", frame(A, B, other, family=family))
    assert not node.sent_by("b", frame(B, A, other, family=family))


@families
def test_an_error_about_an_allowed_connection_passes(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)).allow("a", "world", tcp_port(443)))
    request = frame(A, B, udp(5000, 53), family=family)
    error = frame(B, A, unreachable(family, inner(request)), family=family)
    assert not node.sent_by("b", error)
    assert node.sent_by("a", request)
    assert node.sent_by("b", error)
    assert node.sent_to("a", error, came_in="pcb")

    syn = frame(A, WORLD, tcp(1000, 443, SYN), family=family)
    assert node.sent_by("a", syn)
    assert node.sent_to("a", frame(ROUTER, A, unreachable(family, inner(syn)), family=family))


@families
def test_an_error_about_a_reply_passes_too(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)))
    reply = frame(B, A, udp(53, 5000), family=family)
    assert node.sent_by("a", frame(A, B, udp(5000, 53), family=family))
    assert node.sent_by("b", reply)
    assert node.sent_by("a", frame(A, B, unreachable(family, inner(reply)), family=family))


@families
def test_an_error_about_no_connection_is_decided_by_policy(
    node: NodeUnderTest, family: int
) -> None:
    node.load(node.policy().allow("a", "b", udp_port(53)))
    request = frame(A, B, udp(5000, 53), family=family)
    assert node.sent_by("a", request)
    other_flow = frame(A, B, udp(5001, 53), family=family)
    assert not node.sent_by("b", frame(B, A, unreachable(family, inner(other_flow)), family=family))
    assert not node.sent_to(
        "b", frame(WORLD, B, unreachable(family, inner(request)), family=family)
    )
    assert node.drops() == {"policy": 2}


@families
def test_a_pod_reports_on_its_own_packets_only(node: NodeUnderTest, family: int) -> None:
    """B knows that a talks to c, and tries to end that connection."""
    node.load(node.policy().allow("a", "c", udp_port(53)))
    request = frame(A, C, udp(5000, 53), family=family)
    assert node.sent_by("a", request)
    forged = frame(B, A, unreachable(family, inner(request)), family=family)
    assert not node.sent_by("b", forged)
    assert not node.sent_by("b", frame(C, A, unreachable(family, inner(request)), family=family))
    assert node.drops() == {"policy": 1, "spoofed ip": 1}


@families
def test_an_error_about_an_echo_request_passes(node: NodeUnderTest, family: int) -> None:
    node.load(node.policy().allow("a", "world", PING4, PING6))
    ping = frame(A, WORLD, echo(family), family=family)
    assert node.sent_by("a", ping)
    assert node.sent_to("a", frame(ROUTER, A, unreachable(family, inner(ping)), family=family))


@families
def test_an_error_allowed_by_policy_needs_no_connection(node: NodeUnderTest, family: int) -> None:
    key = service(3, 3 << 8 | 3) if family == 4 else service(4, 1 << 8 | 4)
    node.load(node.policy().allow("b", "a", key))
    nothing = inner(frame(A, B, udp(5000, 53), family=family))
    assert node.sent_by("b", frame(B, A, unreachable(family, nothing), family=family))
