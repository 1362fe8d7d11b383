# SPDX-License-Identifier: Apache-2.0
"""100,000 connections at once, and floods of first packets from a pod and from external clients.

Established connections and real sockets continue. A flood evicts only unanswered connections.
Memory does not grow.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.eventually import eventually
from tests.kernel.support.arrival import WAITS
from tests.kernel.support.many_flows import (
    N_NEW,
    NODE_PORT,
    Flow,
    Hooks,
    entries,
    flows,
    load_clients,
    memory,
    sample,
)
from tests.kernel.support.node_under_test import (
    NODE,
    NodeUnderTest,
)
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.service_yaml import TARGET

pytestmark = [pytest.mark.kernel, pytest.mark.fresh]
TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def owned() -> Iterator[ExitStack]:
    with ExitStack() as held:
        yield held


@pytest.fixture
def wire(node: NodeUnderTest, owned: ExitStack) -> ServiceWire:
    return ServiceWire(node, owned)


def connections(wire: ServiceWire, owned: ExitStack, family: int) -> list[Pair]:
    """Real ones: a to b by TCP and UDP, and from outside to the node port."""
    listening = wire.server("b", family, TCP, TARGET)
    found: list[Pair] = []
    to_pod, to_node = ("10.0.0.11", "fd00::11"), (NODE.ip4, NODE.ip6)
    for client, where, port in [("a", to_pod, TARGET)] * 5 + [("c", to_node, NODE_PORT)] * 5:
        made = wire.open_socket(client, family, TCP)
        made.connect((where[family == 6], port))
        server = owned.enter_context(listening.accept()[0])
        server.settimeout(WAITS)
        found.append((made, server))
    for number in range(5):
        bound = wire.server("b", family, UDP, 9000 + number)
        asking = wire.open_socket("a", family, UDP)
        asking.connect((to_pod[family == 6], 9000 + number))
        asking.send(b"?")
        _, peer = bound.recvfrom(10)
        bound.connect(peer)
        found.append((asking, bound))
    return found


def go_on(pairs: list[Pair]) -> None:
    for client, server in pairs:
        for sender, receiver in ((client, server), (server, client)):
            sender.send(b"still here")
            assert receiver.recv(100) == b"still here"


@pytest.mark.parametrize(
    ("family", "n", "n_flood"),
    [
        (4, 5_000, 40_000),
        (6, 5_000, 40_000),
        pytest.param(4, 80_000, 300_000, marks=pytest.mark.slow),
        pytest.param(6, 40_000, 300_000, marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(900)
def test_connections_outlive_a_flood(
    node: NodeUnderTest,
    wire: ServiceWire,
    owned: ExitStack,
    family: int,
    n: int,
    n_flood: int,
) -> None:
    """The established tables hold 65,536 connections for IPv6 and 131,072 for IPv4."""
    load_clients(node, "c", "world")
    before = memory(node)
    real = connections(wire, owned, family)
    go_on(real)
    go_on(real)
    wanted = flows(n)
    with closing(Hooks(node, family)) as hooks:
        assert hooks.open(wanted) == n

        def all_kept() -> bool:
            assert hooks.goes_on(wanted) == n, "each tries another place when a second has passed"
            return entries(node, family)[1] >= n + len(real)

        eventually(all_kept, "every connection kept", seconds=60)
        kept = entries(node, family)[1]
        assert memory(node) == before
        portion = n_flood // 10
        for at in range(0, n_flood, portion):
            assert hooks.flood_from_pod(at, portion // 2) == portion // 2
            assert hooks.flood_from_outside(at, portion // 2) == portion // 2
            some = sample(wanted, 500, at)
            assert hooks.answers(some) == len(some), "while it lasts"
            go_on(real)
        unanswered, still_kept = entries(node, family)
        assert still_kept == kept, "nothing that was answered was evicted"
        assert N_NEW // 4 < unanswered <= N_NEW
        assert hooks.answers([Flow("tcp", 1024, 100)]) == 0, "the flood's own first was"
        assert memory(node) == before, "no flood takes memory"
        assert hooks.answers(wanted) == n, "afterwards"
        go_on(real)
        stranger = [Flow("udp", 1999, 7999)]
        assert hooks.answers(stranger) == 0, "b opens nothing: only entries let it answer"
