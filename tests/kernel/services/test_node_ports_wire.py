# SPDX-License-Identifier: Apache-2.0
"""Real pods send to the node port of another node, and reach endpoints on either node."""

import socket
from pathlib import Path

import pytest

from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import (
    NODE_PORT,
    TARGET,
    TCP,
    exchange,
    families,
    frames_of,
    services,
)
from tests.kernel.support.packets import packed
from tests.kernel.support.two_nodes import (
    NODES,
    UPLINK,
    TwoNodes,
    address,
)

pytestmark = pytest.mark.kernel

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress, Egress]
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]
  egress: [{to: [{podSelector: {matchLabels: {app: web}}}%s]}]
"""


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pods reach each other, and with "nodes" the nodes, too."""
    folder = tmp_path_factory.mktemp("node-ports")
    nodes = (
        f"{{ipBlock: {{cidr: '{address('b', f)}/{size}'}}}}" for f, size in ((4, 32), (6, 128))
    )
    return {
        name: compiled(folder, POLICY % "".join(f", {each}" for each in more), name=name)
        for name, more in (("pods", ()), ("nodes", nodes))
    }


def is_to(frame: bytes, family: int, host: str, port: int) -> bool:
    """TCP to there, in no tunnel."""
    at, head, proto = (16, 20, 9) if family == 4 else (24, 40, 6)
    size = len(packed(host))
    return (
        frame[14 + proto] == 6
        and frame[14 + at : 14 + at + size] == packed(host)
        and frame[14 + head + 2 : 14 + head + 4] == port.to_bytes(2, "big")
    )


def connected(lab: TwoNodes, family: int) -> tuple[socket.socket, socket.socket]:
    """From pod a to node b's port."""
    listening = lab.server("pod-b", family, TCP, TARGET)
    where = address("b", family), NODE_PORT
    client = lab.connect("pod-a", family, *where)
    assert client and client.getpeername()[:2] == where
    server = lab.accept(listening)
    assert server.getpeername()[0] == address("pod-a", family)
    return client, server


@families
def test_a_pod_reaches_the_endpoint_of_a_node_port_directly(
    lab: TwoNodes, bundles: dict[str, Path], family: int
) -> None:
    for node in NODES:
        lab.load(node, bundles["pods"], services("pod-b"))
    wire = lab.capture("a", UPLINK)
    exchange(*connected(lab, family), 500_000)
    frames = frames_of(wire)
    assert any(is_to(each, family, address("pod-b", family), TARGET) for each in frames)
    assert not any(is_to(each, family, address("b", family), NODE_PORT) for each in frames)
    assert lab.drops() == {} and lab.bad_checksums() == 0


@families
def test_a_pod_with_the_endpoint_on_its_own_node_sends_nothing_to_the_other_node(
    lab: TwoNodes, bundles: dict[str, Path], family: int
) -> None:
    """Here the endpoint is the pod itself."""
    for node in NODES:
        lab.load(node, bundles["pods"], services("pod-a"))
    wire = lab.capture("a", UPLINK)
    listening = lab.server("pod-a", family, TCP, TARGET)
    client = lab.connect("pod-a", family, address("b", family), NODE_PORT)
    assert client
    exchange(client, lab.accept(listening), 100_000)
    assert not any(is_to(each, family, address("b", family), NODE_PORT) for each in frames_of(wire))
    assert lab.drops() == {} and lab.bad_checksums() == 0


@families
def test_a_node_port_with_local_traffic_policy_is_reached_through_its_node(
    lab: TwoNodes, bundles: dict[str, Path], family: int
) -> None:
    for node in NODES:
        lab.load(node, bundles["nodes"], services("pod-b", externalTrafficPolicy="Local"))
    wire = lab.capture("a", UPLINK)
    exchange(*connected(lab, family), 500_000)
    frames = frames_of(wire)
    assert any(is_to(each, family, address("b", family), NODE_PORT) for each in frames)
    assert not any(is_to(each, family, address("pod-b", family), TARGET) for each in frames)
    assert lab.drops() == {} and lab.bad_checksums() == 0
