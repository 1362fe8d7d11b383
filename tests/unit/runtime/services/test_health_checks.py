# SPDX-License-Identifier: Apache-2.0
"""Health-check ports of Services tell load balancers how many endpoints the node has."""

import contextlib
import errno
import http.client
import json
import random
import resource
import socket
import time
from collections.abc import Iterator

import pytest

from policyc.runtime.services import health_checks
from policyc.runtime.services.health_checks import (
    Health,
    HealthChecks,
)

HERE = {4: "127.0.0.1", 6: "::1"}
WEB, NONE = Health("shop", "web", 2), Health("shop", "web", 0)
families = pytest.mark.parametrize("family", [4, 6])


class Node:
    """A node with health-check ports, healthy or not."""

    def __init__(self) -> None:
        self.healthy = True
        self.warnings: list[str] = []
        self.checks = HealthChecks(lambda: self.healthy, self.warnings.append)
        self.ports = contextlib.ExitStack()

    def free_port(self) -> int:
        """Below those that the kernel gives to clients, so that none of them gets it meanwhile.

        A name in the network namespace holds it against the tests of other processes.
        """
        while True:
            port = random.randrange(10_000, 30_000)
            holder = self.ports.enter_context(socket.socket(socket.AF_UNIX))
            with contextlib.suppress(OSError):
                holder.bind(f"\0policyc-test-port-{port}")
                with socket.create_server(
                    ("::", port), family=socket.AF_INET6, dualstack_ipv6=True
                ):
                    return port

    def ask(
        self, family: int, port: int, method: str = "GET"
    ) -> tuple[int, http.client.HTTPMessage, str]:
        link = http.client.HTTPConnection(HERE[family], port, timeout=20)
        link.request(method, "/healthz")
        found = link.getresponse()
        body = found.read().decode()
        link.close()
        return found.status, found.headers, body


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    with made.ports:
        yield made
        made.checks.close()


@families
def test_a_service_with_local_endpoints_answers_200(node: Node, family: int) -> None:
    port = node.free_port()
    node.checks.set({(family, port): WEB})
    status, headers, body = node.ask(family, port)
    assert status == 200 and headers["Content-Type"] == "application/json"
    assert headers["X-Load-Balancing-Endpoint-Weight"] == "2"
    assert json.loads(body) == {
        "service": {"namespace": "shop", "name": "web"},
        "localEndpoints": 2,
        "serviceProxyHealthy": True,
    }
    status, headers, body = node.ask(family, port, "HEAD")
    assert status == 200 and not body and int(headers["Content-Length"]) > 50


@families
def test_a_service_without_local_endpoints_or_a_stale_node_answers_503(
    node: Node, family: int
) -> None:
    port = node.free_port()
    node.checks.set({(family, port): NONE})
    status, headers, body = node.ask(family, port)
    assert status == 503 and headers["X-Load-Balancing-Endpoint-Weight"] == "0"
    assert json.loads(body)["localEndpoints"] == 0
    node.checks.set({(family, port): WEB})
    assert node.ask(family, port)[0] == 200
    node.healthy = False
    status, _, body = node.ask(family, port)
    assert status == 503 and json.loads(body)["serviceProxyHealthy"] is False


def test_each_family_has_its_own_health_check(node: Node) -> None:
    port = node.free_port()
    node.checks.set({(4, port): WEB, (6, port): NONE})
    assert (node.ask(4, port)[0], node.ask(6, port)[0]) == (200, 503)
    node.checks.set({(4, port): WEB})
    assert node.ask(4, port)[0] == 200
    with pytest.raises(ConnectionRefusedError):
        node.ask(6, port)
    node.checks.close()
    with pytest.raises(ConnectionRefusedError):
        node.ask(4, port)


def test_a_taken_port_is_reported_once_and_retried(node: Node) -> None:
    port, other = node.free_port(), node.free_port()
    wanted = {(4, port): WEB, (4, other): NONE}
    with socket.create_server(("0.0.0.0", port)):
        for _ in range(2):
            node.checks.set(wanted)
            assert node.ask(4, other)[0] == 503
        (said,) = node.warnings
        assert said == (
            f"shop/web: health checks at port {port} of IPv4 are not answered: "
            "Address already in use"
        )
    node.checks.set(wanted)
    assert node.ask(4, port)[0] == 200 and len(node.warnings) == 1


@pytest.mark.parametrize(
    "said",
    [b"", b"GET / HTTP/1.1\r\n", b"x" * 20_000, b"\x16\x03\x01"],
    ids=["nothing", "half", "too much", "TLS"],
)
def test_a_malformed_request_is_closed(
    node: Node, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(health_checks, "_PATIENCE", 0.3)
    port = node.free_port()
    node.checks.set({(4, port): WEB})
    with socket.create_connection((HERE[4], port), timeout=20) as link:
        link.sendall(said)
        with contextlib.suppress(ConnectionResetError):
            assert link.recv(100) == b""
    assert node.ask(4, port)[0] == 200


def test_an_unknown_protocol_is_refused(node: Node) -> None:
    port = node.free_port()
    node.checks.set({(4, port): WEB})
    with socket.create_connection((HERE[4], port), timeout=20) as link:
        link.sendall(b"hello there\r\n\r\n")
        assert link.recv(100).startswith(b"HTTP/1.1 400 ")


def test_the_oldest_idle_client_is_closed_for_a_new_one(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_checks, "_MOST", 3)
    monkeypatch.setattr(health_checks, "_PATIENCE", 1.0)
    port = node.free_port()
    node.checks.set({(4, port): WEB})
    idle = [socket.create_connection((HERE[4], port), timeout=20) for _ in range(3)]
    assert node.ask(4, port)[0] == 200, "who asks is not kept out by those who do not"
    idle[0].settimeout(0.3)
    assert idle[0].recv(10) == b"", "who came first has made room"
    for each in idle:
        assert each.recv(10) == b"", "nobody has more than a second"
        each.close()
    assert node.ask(4, port)[0] == 200
    with socket.create_connection((HERE[4], port), timeout=20) as hanging:
        node.checks.close()
        with contextlib.suppress(ConnectionResetError):
            assert hanging.recv(10) == b"", "nor anybody who had not asked yet"


def test_without_descriptors_no_client_is_served_and_the_loop_sleeps(node: Node) -> None:
    port = node.free_port()
    node.checks.set({(4, port): WEB})
    link = socket.socket()
    _, most = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))
    try:
        link.connect((HERE[4], port))
        began = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - began < 0.2
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    link.settimeout(20)
    link.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert link.recv(100).startswith(b"HTTP/1.1 200 ")
    link.close()


def test_ports_without_descriptors_are_reported_once(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was answered before still is, and the others are as soon as there is room."""
    port, other = node.free_port(), node.free_port()
    node.checks.set({(4, port): WEB})
    with monkeypatch.context() as limited:
        limited.setattr(resource, "getrlimit", lambda which: (64, 64))
        for _ in range(2):
            node.checks.set({(4, port): WEB, (4, other): WEB})
        (warning,) = node.warnings
        assert "health checks need" in warning and "the limit is 64" in warning
        assert node.ask(4, port)[0] == 200
        with pytest.raises(ConnectionRefusedError):
            node.ask(4, other)
    node.checks.set({(4, port): WEB, (4, other): WEB})
    assert node.ask(4, other)[0] == 200


def test_without_health_checks_no_server_runs(node: Node) -> None:
    node.checks.set({})
    node.checks.close()
    assert not node.warnings


def test_a_failure_to_open_is_reported_and_retried(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> tuple[socket.socket, socket.socket]:
        raise OSError(errno.EMFILE, "no more")

    port = node.free_port()
    with monkeypatch.context() as patched:
        patched.setattr(socket, "socketpair", fail)
        node.checks.set({(4, port): WEB})
    assert node.warnings == ["health checks are not answered: Too many open files"]
    node.checks.set({(4, port): WEB})
    assert node.ask(4, port)[0] == 200
