# SPDX-License-Identifier: Apache-2.0
"""Fragments of external clients in any order: to Services, to the node itself, and the replies."""

import itertools
import os
import socket
from pathlib import Path

import pytest

from tests.kernel.support.arrival import arrived, is_silent
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import (
    NODE_PORT,
    POLICY,
    TARGET,
    services,
)
from tests.kernel.support.fragment_client import (
    Client,
)
from tests.kernel.support.two_nodes import (
    TwoNodes,
    address,
)

pytestmark = [pytest.mark.kernel, pytest.mark.both_families]
families = pytest.mark.parametrize("family", [4, 6])
UDP = socket.SOCK_DGRAM


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """client1 alone may reach the pods."""
    return compiled(tmp_path_factory.mktemp("outside"), POLICY)


def arrive_in_any_order(
    sender: Client, server: socket.socket, port: int, family: int, denied: Client | None = None
) -> None:
    """Three fragments, and the same of one whose datagrams may not."""
    for order in itertools.permutations(range(3)):
        data = os.urandom(3000)
        sender.send(order, data, port, family)
        assert arrived(server, 65536) == data, order
        if denied:
            denied.send(order, data, port, family)


@families
@pytest.mark.parametrize("pod", ["pod-a", "pod-b"], ids=["of this node", "of another node"])
def test_fragments_to_a_node_port_arrive_in_any_order(
    lab: TwoNodes, bundle: Path, family: int, pod: str
) -> None:
    for node in ("a", "b"):
        lab.load(node, bundle, services(pod), reassemble=True)
    server = lab.server(pod, family, UDP, TARGET)
    allowed, denied = Client(lab, "client1", "a"), Client(lab, "client2", "a")
    arrive_in_any_order(allowed, server, NODE_PORT, family, denied)
    assert is_silent(server)
    assert lab.bad_checksums() == 0
    by_policy = sum(drops.get("policy", 0) for drops in lab.drops().values())
    assert by_policy == 6, "each first one was asked about, once"


@families
def test_fragments_directly_to_a_pod_arrive_in_any_order(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """With Services the uplink sees them. Without, only the pod's own hook does."""
    server = lab.server("pod-a", family, UDP, TARGET)
    allowed, denied = Client(lab, "client1", "pod-a"), Client(lab, "client2", "pod-a")
    for there in (None, services("pod-b")):
        lab.load("a", bundle, there, reassemble=True)
        arrive_in_any_order(allowed, server, TARGET, family, denied)
        assert is_silent(server)
    assert lab.status("a").drops["policy"] == 12


@families
def test_fragments_to_the_node_itself_arrive_in_any_order(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    lab.load("a", bundle, services("pod-a"), reassemble=True)
    server = lab.server("a", family, UDP, 9000)
    arrive_in_any_order(Client(lab, "client2", "a"), server, 9000, family)
    found = lab.status("a")
    assert found.drops == {} and found.reassembly is not None
    assert found.reassembly["sent"] == found.reassembly["back"] > 0


@families
def test_a_later_fragment_alone_reaches_no_pod(lab: TwoNodes, bundle: Path, family: int) -> None:
    """The uplink has seen the first fragment, but policy denied it."""
    lab.load("a", bundle, services("pod-b"), reassemble=True)
    seen = lab.capture("pod-a", "eth0")
    denied = Client(lab, "client2", "pod-a")
    data = os.urandom(3000)
    denied.send((0, 1, 2), data, TARGET, family)
    for order in ((1,), (2, 1), (1, 2, 0), (0, 2)):
        denied.send(order, data, TARGET, family)
    assert is_silent(lab.server("pod-a", family, UDP, TARGET))
    kind = b"\x08\x00" if family == 4 else b"\x86\xdd"
    frames = []
    while True:
        try:
            frames.append(seen.recv(65536))
        except BlockingIOError:
            break
    source = socket.inet_pton(
        socket.AF_INET if family == 4 else socket.AF_INET6, address("client2", family)
    )
    assert not [each for each in frames if each[12:14] == kind and source in each[:54]]
