# SPDX-License-Identifier: Apache-2.0
"""Real clients outside reach Services on real nodes, each under its own address."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from policyc.runtime.json_value import JsonValue
from policyc.runtime.uplinks import Outside
from tests.kernel.service_yaml import service, slices, value
from tests.kernel.two_nodes import EXTERNAL, PODS, TwoNodes, address

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM
PORT, NODE_PORT, TARGET = 80, 30080, 8080
BULK = 3_000_000

POLICY = f"""\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: web, namespace: shop}}
spec:
  podSelector: {{matchLabels: {{app: web}}}}
  policyTypes: [Ingress]
  ingress:
  - from:
    - ipBlock: {{cidr: {address("client1", 4)}/32}}
    - ipBlock: {{cidr: "{address("client1", 6)}/128"}}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """client1 alone may reach the pods."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "policy.yaml").write_text(POLICY)
    assert run(["compile", "-f", str(folder / "policy.yaml"), "-o", str(folder / "bundle")]) == 0
    return folder / "bundle"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[TwoNodes]:
    with ExitStack() as owned:
        yield TwoNodes(tmp_path, owned)


def services(*names: str) -> list[JsonValue]:
    """One of type NodePort, with an external IP, for TCP and UDP; its endpoints are these."""
    ports = [
        {"name": name, "protocol": name.upper(), "port": PORT, "nodePort": NODE_PORT}
        for name in ("tcp", "udp")
    ]
    found = [
        service(type="NodePort", ports=ports, externalIPs=list(EXTERNAL.values())),
    ]
    for each in slices([]):
        family = int(each.raw["addressType"][-1])
        found.append(
            value(
                each.raw
                | {
                    "ports": [
                        {"name": name, "protocol": name.upper(), "port": TARGET}
                        for name in ("tcp", "udp")
                    ],
                    "endpoints": [
                        {
                            "addresses": [address(name, family)],
                            "conditions": {"ready": True},
                            "nodeName": PODS.get(name, name),
                        }
                        for name in names
                    ],
                }
            )
        )
    return found


def loaded(lab: TwoNodes, bundle: Path, *names: str, way_back: Outside = "tunnel") -> None:
    for node in ("a", "b"):
        lab.load(node, bundle, services(*names), way_back)


def exchange(client: socket.socket, server: socket.socket, size: int) -> None:
    """Both send at once, and get it whole."""
    data = os.urandom(size)
    failures: list[BaseException] = []

    def send(end: socket.socket) -> None:
        try:
            end.sendall(data)
        except OSError as failure:
            failures.append(failure)

    for end in (client, server):
        end.settimeout(20)
    senders = [threading.Thread(target=send, args=(end,)) for end in (client, server)]
    for each in senders:
        each.start()
    for end in (client, server):
        found = bytearray()
        while len(found) < size:
            part = end.recv(1 << 16)
            assert part, "the connection ended"
            found += part
        assert found == data
    for each in senders:
        each.join()
    assert not failures


def accepted(listening: socket.socket) -> tuple[socket.socket, str]:
    server, peer = listening.accept()
    return server, str(peer[0])


@families
@pytest.mark.parametrize("to", ["external ip", "node port"])
def test_a_client_reaches_a_pod_of_the_node_it_came_to(
    lab: TwoNodes, bundle: Path, family: int, to: str
) -> None:
    loaded(lab, bundle, "pod-a")
    listening = lab.server("pod-a", family, TCP, TARGET)
    where = (EXTERNAL[family], PORT) if to == "external ip" else (address("a", family), NODE_PORT)
    client = lab.connect("client1", family, *where)
    assert client and client.getpeername()[:2] == where
    server, seen = accepted(listening)
    with server:
        assert seen == address("client1", family)
        exchange(client, server, BULK)
    assert lab.connect("client2", family, *where) is None
    assert lab.drops().keys() == {"a"} and lab.drops()["a"].keys() == {"policy"}
    assert lab.bad_checksums() == 0


@families
def test_a_pod_on_another_node_sees_the_clients_own_address(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    loaded(lab, bundle, "pod-b")
    listening = lab.server("pod-b", family, TCP, TARGET)
    where = address("a", family), NODE_PORT
    client = lab.connect("client1", family, *where)
    assert client and client.getpeername()[:2] == where
    server, seen = accepted(listening)
    with server:
        assert seen == address("client1", family)
        exchange(client, server, BULK)
    assert lab.connect("client2", family, *where) is None
    assert lab.drops().keys() == {"b"} and lab.drops()["b"].keys() == {"policy"}
    assert lab.bad_checksums() == 0
