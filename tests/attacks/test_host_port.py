# SPDX-License-Identifier: Apache-2.0
"""A pod helps an external peer to reach a socket of its node that host policy closes.

The pod sends from the socket's port, and the host's SNAT keeps the port. Then the host forgets the
mapping, as it does for a removed pod, and the peer sends to the node.
"""

from pathlib import Path

import pytest
from pyroute2.netlink.nfnetlink.nfctsocket import NFCTSocket

from tests.attacks.tunnel_port import (
    masqueraded_by_nft,
)
from tests.kernel.support.arrival import SILENCE, arrived, arrived_from, is_silent
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import (
    BULK,
    TCP,
    UDP,
    exchange,
)
from tests.kernel.support.host_policy_wire import (
    CLOSED,
    OPEN,
    OUT,
    host_policy,
)
from tests.kernel.support.two_nodes import (
    TwoNodes,
    address,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
PEER_PORT = 1234
SIZE = 4000
"""More than a packet holds."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("host-port"), host_policy())


def forget_mappings(lab: TwoNodes) -> None:
    """As a CNI does for a pod that is deleted."""

    def there() -> None:
        with NFCTSocket() as conntrack:
            conntrack.flush()

    lab.at["a"].within(there)


class Lent:
    """The pod has sent by the host's SNAT, and was answered."""

    def __init__(self, lab: TwoNodes, family: int, port: int, data: bytes = b"lent") -> None:
        self.node = address("a", family), port
        self.peer = lab.server("client2", family, UDP, PEER_PORT)
        self.pod = lab.server("pod-a", family, UDP, port)
        self.pod.sendto(data, (address("client2", family), PEER_PORT))
        found, who = arrived_from(self.peer, 9000)
        assert (found, who[:2]) == (data, self.node), "the host keeps the port"
        self.peer.sendto(data, self.node)
        assert arrived(self.pod, 9000) == data


@families
@pytest.mark.parametrize("data", [b"in", b"in" * SIZE], ids=["whole", "in fragments"])
def test_a_peer_of_a_pod_does_not_reach_a_socket_of_the_node(
    lab: TwoNodes, bundle: Path, family: int, data: bytes
) -> None:
    lab.load("a", bundle, None)
    masqueraded_by_nft(lab)
    lent = Lent(lab, family, CLOSED)
    forget_mappings(lab)
    victim = lab.server("a", family, UDP, CLOSED)
    lent.peer.sendto(data, lent.node)
    assert is_silent(victim)
    assert lab.status("a").drops["policy"] >= 1
    lent.pod.sendto(b"again", (address("client2", family), PEER_PORT))
    assert arrived(lent.peer) == b"again", "what is forwarded goes on"


@families
def test_a_pods_peer_does_not_reach_a_socket_that_was_opened_before(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """The pod gets no reply, because the node has the port."""
    lab.load("a", bundle, None)
    masqueraded_by_nft(lab)
    victim = lab.server("a", family, UDP, CLOSED)
    peer = lab.server("client2", family, UDP, PEER_PORT)
    pod = lab.server("pod-a", family, UDP, CLOSED)
    pod.sendto(b"lent", (address("client2", family), PEER_PORT))
    assert arrived_from(peer)[1][:2] == (address("a", family), CLOSED)
    forget_mappings(lab)
    peer.sendto(b"in", (address("a", family), CLOSED))
    assert is_silent(victim)


@families
def test_a_socket_of_the_node_does_not_send_as_the_pod(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    lab.load("a", bundle, None)
    masqueraded_by_nft(lab)
    lent = Lent(lab, family, CLOSED)
    forget_mappings(lab)
    own = lab.server("a", family, UDP, CLOSED)
    own.sendto(b"out", (address("client2", family), PEER_PORT))
    assert is_silent(lent.peer)
    own.sendto(b"out", (address("client2", family), OUT))
    assert lab.status("a").drops == {"policy": 1}, "the port that is open"


@families
def test_a_peer_that_is_allowed_reaches_the_socket(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """The control: the same packet, from a peer and to a port that the policy allows."""
    lab.load("a", bundle, None)
    masqueraded_by_nft(lab)
    peer = lab.server("client1", family, UDP, PEER_PORT)
    pod = lab.server("pod-a", family, UDP, OPEN)
    pod.sendto(b"lent", (address("client1", family), PEER_PORT))
    assert peer.recvfrom(100)[1][:2] == (address("a", family), OPEN)
    forget_mappings(lab)
    open_socket = lab.server("a", family, UDP, OPEN)
    peer.sendto(b"in", (address("a", family), OPEN))
    assert arrived(open_socket) == b"in"
    open_socket.sendto(b"out", (address("client1", family), PEER_PORT))
    assert arrived(peer) == b"out"


@families
def test_tcp_that_the_host_translates_keeps_working(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """The node listens at the same port. A listener makes no connection from a segment without SYN."""
    lab.load("a", bundle, None)
    masqueraded_by_nft(lab)
    lab.server("a", family, TCP, CLOSED)
    listening = lab.server("client2", family, TCP, PEER_PORT)
    made = lab.open_socket("pod-a", family, TCP)
    made.bind((address("pod-a", family), CLOSED))
    made.connect((address("client2", family), PEER_PORT))
    server = lab.accept(listening)
    assert server.getpeername()[:2] == (address("a", family), CLOSED)
    exchange(made, server, BULK)
    assert lab.connect("client2", family, address("a", family), CLOSED, SILENCE) is None
