# SPDX-License-Identifier: Apache-2.0
"""TCP data between two pods of the node goes from socket to socket."""

import socket
import time
from collections.abc import Iterator

import pytest

from tests.kernel.support.bypass_lab import counted, received, talk
from tests.kernel.support.socket_lab import PODS, Socketed, socket_lab, ways

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: guarded, namespace: shop}
spec:
  podSelector: {matchLabels: {app: guarded}}
  policyTypes: [Egress]
  egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]
"""


@pytest.fixture(scope="module", params=["c", pytest.param("llvm", marks=pytest.mark.slow)])
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Socketed]:
    folder, pods = tmp_path_factory.mktemp("bypass"), tuple(PODS.values())
    with socket_lab(folder, POLICY, request.param, pods, "pods") as found:
        found.bypass = "tcp"
        yield found


@pytest.fixture
def node(lab: Socketed) -> Iterator[Socketed]:
    yield lab
    lab.unload()


REQUEST, ANSWER = b"request" * 100, b"answer" * 20000


def asks(opened: socket.socket) -> list[bytes]:
    found = []
    for _ in range(400):
        opened.sendall(REQUEST)
        found.append(received(opened, len(ANSWER)))
        time.sleep(0.01)
    opened.shutdown(socket.SHUT_WR)
    return [*found, opened.recv(10)]


def answers(taken: socket.socket) -> list[bytes]:
    found = []
    for _ in range(400):
        found.append(received(taken, len(REQUEST)))
        taken.sendall(ANSWER)
    return [*found, taken.recv(10)]


@ways
def test_both_directions_bypass_the_stack(node: Socketed, way: str) -> None:
    node.load()
    client, server = talk(node, asks, answers, way)
    assert client == [ANSWER] * 400 + [b""] and server == [REQUEST] * 400 + [b""]
    found = counted(node)
    assert found.bytes > 0 and not found.left
