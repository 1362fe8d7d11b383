# SPDX-License-Identifier: Apache-2.0
"""Connections of sockets end when the endpoint they were given is removed."""

import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.kernel import namespaces, sock_diag
from tests.kernel.support.arrival import WAITS
from tests.kernel.support.service_yaml import PORT, VIP
from tests.kernel.support.socket_lab import (
    KINDS,
    PODS,
    Socketed,
    address,
    host_of,
    kinds,
    made,
    served,
    socket_lab,
    ways,
)

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: open, namespace: shop}
spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{}]}
"""
HELD = 8081
"""The silent port."""
PEERS = 32768
"""PC_SOCKET_PEERS."""
CLIENTS = "", "shop/client"
"""The node's own processes, and a pod's."""
clients = pytest.mark.parametrize("client", CLIENTS, ids=("node", "pod"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Socketed]:
    folder = tmp_path_factory.mktemp("sockets")
    pods = tuple(PODS[name] for name in ("web", "cart", "client"))
    with socket_lab(folder, POLICY, "c", pods, "pods") as found:
        yield found


@pytest.fixture
def node(lab: Socketed) -> Iterator[Socketed]:
    yield lab
    lab.unload()


@dataclass
class Servers:
    """Sockets in pods' namespaces that answer only when the test says so."""

    held: dict[tuple[str, str], socket.socket]

    def answer(self, pod: str, kind: str) -> None:
        """Send data on the only connection to a pod."""
        server = self.held[pod, kind]
        if kind == "TCP":
            with server.accept()[0] as connection:
                connection.sendall(b"!")
        else:
            server.sendto(b"!", server.recvfrom(10)[1])


@pytest.fixture
def servers(lab: Socketed) -> Iterator[Servers]:
    with ExitStack() as owned:
        held = {}
        for pod in ("web", "cart"):
            space = os.open(lab.lab.ends[f"shop/{pod}"].namespace, os.O_RDONLY)
            owned.callback(os.close, space)
            for kind in KINDS:
                bound = namespaces.run_in(space, lambda kind=kind: listening(kind))
                held[pod, kind] = owned.enter_context(bound)
        yield Servers(held)


def listening(kind: str) -> socket.socket:
    bound = made("IPv6", kind)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("::", HELD))
    if kind == "TCP":
        bound.listen()
    return bound


def silent(*pods: str, **conditions: bool) -> list[JsonValue]:
    """The Service with the silent port of these pods."""
    found = served(*pods)
    for each in found[1:]:
        assert isinstance(each.raw, dict)
        for port in each.raw["ports"]:
            port["port"] = HELD
        for endpoint in each.raw["endpoints"]:
            endpoint["conditions"] |= conditions
    return found


def outcome(
    node: Socketed,
    client: str,
    kind: str,
    change: Callable[[], object],
    answer: Callable[[], object] = lambda: None,
    way: str = "IPv4",
) -> str:
    """What a process with a connection to the Service gets, after a change and perhaps an answer.

    `data`, or the name of the error.
    """
    ours, theirs = socket.socketpair()
    ours.settimeout(WAITS)
    found: list[str] = []

    def hold() -> str:
        with made(way, kind) as each:
            each.connect((address(way, VIP), PORT))
            if kind == "UDP":
                each.send(b"?")
            theirs.send(b"connected")
            try:
                return "data" if each.recv(100) else "end"
            except OSError as error:
                return errno.errorcode[error.errno or 0]

    def wait() -> None:
        found.append(node.process(hold, end=client))

    with ours, theirs:
        thread = threading.Thread(target=wait)
        thread.start()
        assert ours.recv(10) == b"connected"
        change()
        answer()
        thread.join()
    return found[0]


@ways
@kinds
@clients
@pytest.mark.usefixtures("listing")
def test_a_connection_ends_with_its_endpoint(
    node: Socketed, servers: Servers, client: str, kind: str, way: str
) -> None:
    node.load(silent("web"))
    found = outcome(node, client, kind, lambda: node.services(silent("cart")), way=way)
    assert found == "ECONNABORTED"


@kinds
@clients
def test_a_connection_goes_on_while_its_endpoint_is_there(
    node: Socketed, servers: Servers, client: str, kind: str
) -> None:
    node.load(silent("web"))
    for after in (
        silent("web", "cart"),
        silent("web", ready=False, serving=True, terminating=True),
    ):
        found = outcome(
            node, client, kind, lambda after=after: node.services(after),
            lambda: servers.answer("web", kind),
        )  # fmt: skip
        assert found == "data"
        node.services(silent("web"))


@kinds
def test_a_connection_to_the_pod_itself_goes_on(
    node: Socketed, servers: Servers, kind: str
) -> None:
    """The Service loses the endpoint to which the process connected without it."""
    node.load(silent("web"))
    web, found = host_of("web"), []
    ours, theirs = socket.socketpair()
    ours.settimeout(WAITS)

    def hold() -> bytes:
        with made("IPv4", kind) as each:
            if kind == "UDP":  # it was connected to the Service before
                each.connect((VIP.ip4, PORT))
            each.connect((web.ip4, HELD))
            theirs.send(b"connected")
            theirs.recv(10)
            each.send(b"?")
            return each.recv(10)

    with ours, theirs:
        thread = threading.Thread(
            target=lambda: found.append(node.process(hold, end="shop/client"))
        )
        thread.start()
        assert ours.recv(10) == b"connected"
        node.services(silent("cart"))
        ours.send(b"changed")
        servers.answer("web", kind)
        thread.join()
    assert found == [b"!"]


@clients
def test_a_load_with_other_services_ends_connections(
    node: Socketed, servers: Servers, client: str
) -> None:
    node.load(silent("web"))
    found = outcome(node, client, "TCP", lambda: node.load(silent("cart")))
    assert found == "ECONNABORTED"


def test_an_old_connection_ends_however_many_came_after_it(
    node: Socketed, servers: Servers
) -> None:
    """No table with a limit holds what its end needs."""
    node.load(silent("web"))

    def others() -> None:
        for _ in range(PEERS + 1000):
            with made("IPv4", "UDP") as each:
                each.connect((VIP.ip4, PORT))

    def change() -> None:
        node.process(others, end="shop/client")
        node.services(silent("cart"))

    assert outcome(node, "shop/client", "TCP", change) == "ECONNABORTED"


def test_a_removed_service_ends_its_connections(node: Socketed, servers: Servers) -> None:
    node.load(silent("web"))
    assert outcome(node, "shop/client", "TCP", lambda: node.services([])) == "ECONNABORTED"


def test_a_connection_that_cannot_be_ended_is_warned_of_once(
    node: Socketed, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses, or no namespace is found. The Services are in force all the same."""
    node.load(silent("web"))
    said: list[list[str]] = []

    def refused(_sockets: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    def change() -> None:
        for name, stand_in in (("end", refused), ("by_cookie", lambda _cookies: iter(()))):
            module = sock_diag if name == "end" else namespaces
            with monkeypatch.context() as patched:
                patched.setattr(module, name, stand_in)
                said.append(node.warnings_of(silent("cart")))

    found = outcome(node, "shop/client", "TCP", change, lambda: servers.answer("web", "TCP"))
    assert found == "data"
    (refusal,), (lost,) = said
    assert "cannot end 1 connection of sockets to removed endpoints: the kernel does not" in refusal
    assert "no process and no mount shows" in lost
