# SPDX-License-Identifier: Apache-2.0
"""A TCP connection whose opening direction is denied passes no packet, whichever end sends first.

The loaded policy allows everything except the client's opening direction, at one of its ends. The
server's packets are allowed as a flow of their own. They must not continue the client's connection.
"""

from typing import Literal

import pytest

from policyc.runtime.endpoints.forwarding import Forwarding
from tests.attacks.revoked_connection import (
    CASES,
    PAIRS,
    PORT,
    Ends,
    Where,
    connect,
    denying,
    families,
    open_policy,
    received,
)
from tests.kernel.support.node_under_test import NodeUnderTest
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.table_policy import tcp_port

pytestmark = pytest.mark.kernel


SPEAKERS = [("client",), ("server",), ("server", "client"), ("client", "server")]


@families
@pytest.mark.parametrize(("where", "ends"), CASES)
@pytest.mark.parametrize("forward", ["redirect", "stack"])
def test_a_revoked_connection_passes_nothing(
    node: NodeUnderTest,
    wire: ServiceWire,
    family: int,
    where: Where,
    ends: Ends,
    forward: Forwarding,
) -> None:
    """The connection continues once the policy allows it again."""
    node.load(open_policy(node), forward=forward)
    revoked = connect(wire, *ends, family)
    node.load(denying(node, where, *ends), forward=forward)
    assert revoked.is_silent("server")
    assert revoked.is_silent("client", "server")
    node.load(denying(node, where, *ends), forward=forward)
    assert revoked.is_silent("server", "client")
    node.load(open_policy(node), forward=forward)
    assert received(revoked.client, 60) == b"after the revocation" * 3
    assert received(revoked.server, 40) == b"after the revocation" * 2


@families
@pytest.mark.parametrize(("where", "ends"), CASES)
@pytest.mark.parametrize("first", ["client", "server"])
def test_the_first_load_ends_a_denied_connection(
    node: NodeUnderTest,
    wire: ServiceWire,
    family: int,
    where: Where,
    ends: Ends,
    first: Literal["client", "server"],
) -> None:
    """The datapath has no entry of earlier connections. The sockets show which end opened them."""
    before = connect(wire, *ends, family)
    node.load(denying(node, where, *ends))
    assert before.is_silent(first)
    assert before.is_silent("client", "server")


@families
@pytest.mark.parametrize("ends", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("first", ["client", "server"])
def test_the_first_load_keeps_an_allowed_connection(
    node: NodeUnderTest,
    wire: ServiceWire,
    family: int,
    ends: Ends,
    first: Literal["client", "server"],
) -> None:
    """The opposite direction may be denied."""
    client, server = ends
    before = connect(wire, *ends, family)
    node.load(node.policy().allow(client, server, tcp_port(PORT)))
    speaker, listener = (
        (before.client, before.server) if first == "client" else (before.server, before.client)
    )
    speaker.sendall(b"first")
    assert received(listener, 5) == b"first"
    assert before.talks()


@families
@pytest.mark.parametrize("ends", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("resets", [False, True], ids=["silent", "resets"])
def test_an_allowed_server_continues_after_the_second_load(
    node: NodeUnderTest, wire: ServiceWire, family: int, ends: Ends, resets: bool
) -> None:
    """The server sends first after each load. The client's stack sends only ACKs."""
    client, server = ends
    before = connect(wire, *ends, family)
    policy = node.policy().allow(client, server, tcp_port(PORT))
    for _ in range(3):
        node.load(policy, resets=resets)
        before.server.sendall(b"first")
        assert received(before.client, 5) == b"first"
