# SPDX-License-Identifier: Apache-2.0
"""A TCP connection of the node whose opening direction is denied passes no packet.

The node is under host policy. The policy allows everything except the client's opening direction.
The server's packets are allowed as a flow of their own. They must not continue the client's
connection.
"""

from typing import Literal

import pytest

from tests.attacks.revoked_connection import (
    Open,
    received,
)
from tests.attacks.revoked_host_connection import (
    DENYING,
    ENDS,
    OPEN,
    Bundles,
    Side,
    bundles,
    connect,
    policy,
    rule,
    sides,
)
from tests.kernel.support.host_policy_wire import (
    OUT,
    SSH,
)
from tests.kernel.support.two_nodes import TwoNodes

__all__ = ["bundles"]

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
End = Literal["client", "server"]
firsts = pytest.mark.parametrize("first", ["client", "server"])
API = 6443
"""A failsafe port that the node reaches at others."""


CLOSED_BOTH_WAYS = policy("", "")
ONE_WAY: dict[Side, str] = {
    "ingress": policy(rule("Allow", "ingress"), ""),
    "egress": policy("", rule("Allow", "egress")),
}


def says(ends: Open, first: End) -> bool:
    """Whether the other end hears what the first one says."""
    speaker, listener = (
        (ends.client, ends.server) if first == "client" else (ends.server, ends.client)
    )
    speaker.sendall(b"first")
    return received(listener, 5) == b"first"


@families
@sides
def test_a_revoked_connection_of_the_node_passes_nothing(
    lab: TwoNodes, bundles: Bundles, family: int, side: Side
) -> None:
    """The connection continues once the policy allows it again."""
    lab.load("a", bundles.of(OPEN), None)
    revoked = connect(lab, *ENDS[side], family)
    lab.load("a", bundles.of(DENYING[side]), None)
    assert revoked.is_silent("server")
    assert revoked.is_silent("client", "server")
    lab.load("a", bundles.of(DENYING[side]), None)
    assert revoked.is_silent("server", "client")
    lab.load("a", bundles.of(OPEN), None)
    assert received(revoked.client, 60) == b"after the revocation" * 3
    assert received(revoked.server, 40) == b"after the revocation" * 2


@families
@sides
@firsts
def test_the_first_load_ends_a_denied_connection(
    lab: TwoNodes, bundles: Bundles, family: int, side: Side, first: End
) -> None:
    """The datapath has no entry of the connection. The node's socket shows which end opened it."""
    before = connect(lab, *ENDS[side], family)
    lab.load("a", bundles.of(DENYING[side]), None)
    assert before.is_silent(first)
    assert before.is_silent("client", "server")


@families
@sides
@firsts
def test_the_first_load_keeps_an_allowed_connection(
    lab: TwoNodes, bundles: Bundles, family: int, side: Side, first: End
) -> None:
    """The opposite direction may be denied."""
    before = connect(lab, *ENDS[side], family)
    lab.load("a", bundles.of(ONE_WAY[side]), None)
    assert says(before, first)
    assert before.talks()


@families
@firsts
@pytest.mark.parametrize(
    "ends", [("client1", "a", SSH), ("a", "client2", API)], ids=["inbound", "outbound"]
)
def test_the_first_load_keeps_a_connection_at_a_failsafe_port(
    lab: TwoNodes, bundles: Bundles, family: int, ends: tuple[str, str, int], first: End
) -> None:
    before = connect(lab, *ends, family)
    lab.load("a", bundles.of(CLOSED_BOTH_WAYS), None)
    assert says(before, first)
    assert before.talks()
    lab.load("a", bundles.of(OPEN), None)
    lab.load("a", bundles.of(CLOSED_BOTH_WAYS), None)
    assert says(before, first)
    assert before.talks()


@families
@firsts
def test_the_first_load_keeps_a_connection_of_the_node_to_its_pod(
    lab: TwoNodes, bundles: Bundles, family: int, first: End
) -> None:
    """The node always reaches its own pods."""
    before = connect(lab, "a", "pod-a", OUT, family)
    lab.load("a", bundles.of(CLOSED_BOTH_WAYS), None)
    assert says(before, first)
    assert before.talks()
