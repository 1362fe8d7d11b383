# SPDX-License-Identifier: Apache-2.0
"""Datagrams and short connections for tests of the fast path, and IPsec policies that end it."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.eventually import eventually
from tests.kernel.support.arrival import WAITS, accepted
from tests.kernel.support.packets import Host
from tests.kernel.support.two_nodes import NODES, TwoNodes, address
from tests.kernel.support.wire import Wire

TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM
TARGET = 8080
"""The port of servers in the lab of two nodes."""
N = 50
"""Datagrams, for which packets on the stack path are counted."""
_TCP_CLOSE = 7


class Datagrams:
    """Datagrams from pod-a to a server, and their answers."""

    def __init__(self, lab: TwoNodes, family: int, server: str, to: str = "", port: int = TARGET):
        self.lab, self.family = lab, family
        self.server = lab.server(server, family, UDP, TARGET)
        self.client = lab.open_socket("pod-a", family, UDP)
        self.client.connect((to or address(server, family), port))
        self.seen = ""
        """Whom the server saw last."""

    def asks(self, n: int = 1, patience: float = WAITS) -> bool:
        """Whether all are answered."""
        self.server.settimeout(patience)
        self.client.settimeout(patience)
        try:
            for _ in range(n):
                self.client.send(b"question")
                _, peer = self.server.recvfrom(100)
                self.seen = peer[0]
                self.server.sendto(b"answer", peer)
                self.client.recv(100)
        except (TimeoutError, ConnectionRefusedError):
            return False
        return True

    def routed(self, n: int = N) -> int:
        """How many packets of so many questions and answers the node's stack forwards."""
        before = self.lab.routed("a", self.family)
        assert self.asks(n)
        return self.lab.routed("a", self.family) - before


class Connections:
    """One end opens a connection each time; the other end listens."""

    def __init__(
        self, lab: TwoNodes, family: int, client: str, server: str, to: str = "", port: int = TARGET
    ) -> None:
        self.lab, self.family, self.client = lab, family, client
        self.to = to or address(server, family), port
        self.listener = lab.server(server, family, TCP, TARGET)
        self.peer = ""
        """The last client, as the server saw it."""

    def once(self) -> None:
        """A request and an answer, and both ends close."""
        client = self.lab.connect(self.client, self.family, *self.to)
        assert client
        with client, self.lab.accept(self.listener) as server:
            self.peer = server.getpeername()[0]
            greet(client, server)
            client.shutdown(socket.SHUT_WR)
            assert server.recv(16) == b""
            server.shutdown(socket.SHUT_WR)
            assert client.recv(16) == b""
            eventually(lambda: is_acknowledged(server), "the last acknowledgement")

    def routed(self) -> dict[str, int]:
        """How many packets of a connection the stack of each node forwards."""
        before = {node: self.lab.routed(node, self.family) for node in NODES}
        self.once()
        return {node: self.lab.routed(node, self.family) - before[node] for node in NODES}


class ConnectionsOfPods:
    """Pod b listens on a port; pod a opens a connection to port 80 each time."""

    def __init__(self, wire: Wire, family: int, there: Host, port: int = 80) -> None:
        self._wire, self._address = wire, there.address(family)
        self._listener = wire.listen("b", port, family)

    def close(self) -> None:
        """No longer listen."""
        self._listener.close()

    def once(self) -> None:
        """A request and an answer."""
        client = self._wire.connect("a", self._address, 80)
        assert client
        with client, accepted(self._listener) as server:
            greet(client, server)


def greet(client: socket.socket, server: socket.socket) -> None:
    """A request and its answer."""
    for sender, receiver in ((client, server), (server, client)):
        receiver.settimeout(WAITS)
        sender.sendall(b"hello")
        assert receiver.recv(16) == b"hello"


def is_acknowledged(closed: socket.socket) -> bool:
    """Whether the other end has acknowledged the end of the stream: no packet is under way."""
    return closed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == bytes([_TCP_CLOSE])


@contextmanager
def ipsec_policy(
    ip: Callable[..., object],
    source: str = "192.0.2.0/24",
    to: str = "203.0.113.0/24",
    direction: str = "fwd",
) -> Iterator[None]:
    """While it is open, a node blocks packets from one prefix to the other.

    The tests send none between the default prefixes. `ip` runs that command on the node.
    """
    which = ("src", source, "dst", to, "dir", direction)
    ip("xfrm", "policy", "add", *which, "action", "block")
    try:
        yield
    finally:
        ip("xfrm", "policy", "delete", *which)


@contextmanager
def blocked(lab: TwoNodes, node: str, direction: str, source: str, to: str) -> Iterator[None]:
    """Such a policy of a node of the lab. The stack has to count a packet that it blocks."""
    before = n_blocked(lab, node)
    with ipsec_policy(partial(lab.run, node, "ip"), source, to, direction):
        yield
    assert n_blocked(lab, node) > before


@contextmanager
def blocked_by_default(lab: TwoNodes, node: str, direction: str) -> Iterator[None]:
    """While it is open, the node blocks what no policy selects."""
    lab.run(node, "ip", "xfrm", "policy", "setdefault", direction, "block")
    yield
    lab.run(node, "ip", "xfrm", "policy", "setdefault", direction, "accept")


def n_blocked(lab: TwoNodes, node: str) -> int:
    """Packets that the node's policies have blocked so far."""
    text = lab.at[node].within(Path("/proc/net/xfrm_stat").read_text)
    counters = dict(line.split() for line in text.splitlines())
    return sum(int(value) for name, value in counters.items() if name.endswith("PolBlock"))
