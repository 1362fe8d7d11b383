# SPDX-License-Identifier: Apache-2.0
"""Behind another CNI: Services, source addresses, return paths and policy on other network layouts."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from policyc.runtime.devices.uplinks import ReturnPath
from policyc.runtime.endpoints.forwarding import Forwarding
from policyc.runtime.errors import InputError
from tests.kernel.support.arrival import SILENCE, WAITS
from tests.kernel.support.bundles import (
    compiled,
    policy_for_web,
)
from tests.kernel.support.chained import (
    BRIDGE,
    AmazonVpc,
    AzureBridge,
    AzureTransparent,
    Chained,
    OwnDevice,
    Terway,
)
from tests.kernel.support.external_wire import (
    NODE_PORT,
    PORT,
    TARGET,
    accepted,
    exchange,
    received,
    services,
)
from tests.kernel.support.node_under_test import ip
from tests.kernel.support.service_yaml import VIP
from tests.kernel.support.two_nodes import (
    CLIENT1,
    address,
)

pytestmark = pytest.mark.kernel
TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM
BULK = 300_000

POLICY = policy_for_web("podSelector: {matchLabels: {app: web}}", *CLIENT1)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pods of the shop's web, and client1, reach the web; its database and client2 do not."""
    return compiled(tmp_path_factory.mktemp("chained"), POLICY)


FAST = {
    (AmazonVpc, "redirect", "tunnel"),
    (Terway, "redirect", "dsr"),
    (AzureTransparent, "stack", "dsr"),
    (AzureBridge, "redirect", "tunnel"),
}
ALL = [
    pytest.param(how, marks=() if how in FAST else pytest.mark.slow)
    for how in product(
        (AmazonVpc, Terway, AzureTransparent, AzureBridge),
        get_args(Forwarding),
        get_args(ReturnPath),
    )
]


@pytest.fixture(scope="module", params=ALL, ids=lambda how: f"{how[0].__name__}-{how[1]}-{how[2]}")
def lab(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    bundle: Path,
    loads_of_module: None,
) -> Iterator[Chained]:
    """Loaded; a Service has pod-b as its endpoint."""
    network, forward, return_path = request.param
    with ExitStack() as owned:
        made: Chained = network(tmp_path_factory.mktemp("network"), owned)
        if return_path == "dsr":  # the cloud lets a node send under the other's address
            made.check_no_paths("router")
        for node in ("a", "b"):
            made.load(node, bundle, services("pod-b"), return_path, forward=forward)
        yield made


def reached(
    lab: Chained, source: str, to: str, family: int, port: int, at: str, allowed: bool = True
) -> str | None:
    """The source address that `at` sees of a TCP connection from `source`. None: no connection."""
    listening = lab.server(at, family, TCP, TARGET)
    client = lab.connect(source, family, to, port, WAITS if allowed else SILENCE)
    if client is None:
        listening.close()
        return None
    server, seen = accepted(listening)
    with server, client, listening:
        exchange(client, server, BULK)
    return seen


def test_pods_reach_pods_as_policy_says(lab: Chained) -> None:
    for family in lab.families:
        for source, to, allowed in (
            ("pod-a", "pod-c", True),
            ("pod-c", "pod-a", False),
            ("pod-a", "pod-b", True),
            ("pod-c", "pod-b", False),
            ("pod-b", "pod-c", True),
        ):
            seen = reached(lab, source, address(to, family), family, TARGET, to, allowed)
            assert seen == (address(source, family) if allowed else None), (source, to)


def test_pods_reach_a_service_by_its_cluster_ip(lab: Chained) -> None:
    for family in lab.families:
        for source, allowed in (("pod-a", True), ("pod-c", False)):
            seen = reached(lab, source, VIP.address(family), family, PORT, "pod-b", allowed)
            assert seen == (address(source, family) if allowed else None), source


@pytest.mark.parametrize("node", ["a", "b"])
def test_clients_reach_a_node_port_under_their_own_address(lab: Chained, node: str) -> None:
    for family in lab.families:
        for source, allowed in (("client1", True), ("client2", False)):
            seen = reached(lab, source, address(node, family), family, NODE_PORT, "pod-b", allowed)
            assert seen == (address(source, family) if allowed else None), source


def test_a_clients_connection_outlives_its_entry_in_the_hosts_conntrack(lab: Chained) -> None:
    """The host's own NAT would take the next reply for a new connection."""
    for family in lab.families:
        ends = []
        for node in ("a", "b"):
            with lab.server("pod-b", family, TCP, TARGET) as listening:
                client = lab.connect("client1", family, address(node, family), NODE_PORT)
                assert client
                server = lab.accept(listening)
                exchange(client, server, 3000)
                ends.append((client, server))
        time.sleep(1.5)
        for client, server in ends:
            with client, server:
                server.sendall(b"are you still there?")
                assert client.recv(100) == b"are you still there?"


@pytest.mark.parametrize("node", ["a", "b"])
def test_datagrams_and_refusals_reach_the_client(lab: Chained, node: str) -> None:
    """Fragments too. The client also gets the errors for a closed port and for a rejected packet."""
    for family in lab.families:
        client = lab.open_socket("client1", family, UDP)
        client.connect((address(node, family), NODE_PORT))
        with lab.server("pod-b", family, UDP, TARGET) as server:
            for size in (1, 3000):
                data = bytes(size)
                client.send(data)
                found, peer = received(server, client, data)
                assert found == data and peer[:2] == client.getsockname()[:2]
                server.sendto(data, peer)
                assert received(client, server, data, peer)[0] == data
        client.send(b"is there anybody?")
        with pytest.raises(ConnectionRefusedError):
            client.recv(100)


def test_packets_that_leave_the_cluster_have_the_address_that_the_cni_gives(lab: Chained) -> None:
    for family in lab.families:
        seen = reached(lab, "pod-a", address("client2", family), family, TARGET, "client2")
        assert seen == address("a" if lab.masquerades else "pod-a", family)


def test_a_node_reaches_its_pods_whatever_policy_says(lab: Chained) -> None:
    for family in lab.families:
        assert reached(lab, "a", address("pod-a", family), family, TARGET, "pod-a")
        denied = reached(lab, "b", address("pod-a", family), family, TARGET, "pod-a", False)
        assert denied is None


def test_redirected_packets_follow_the_routing_rules(lab: Chained) -> None:
    """They leave by the second device where the pods are behind it, and take the fast path if
    allowed.
    """
    for family in lab.families:
        server = lab.server("pod-b", family, UDP, TARGET)
        client = lab.open_socket("pod-a", family, UDP)
        client.connect((address("pod-b", family), TARGET))
        for n in (3, 50):
            before = lab.routed("a", family)
            for _ in range(n):
                client.send(b"question")
                server.sendto(b"answer", server.recvfrom(100)[1])
                assert client.recv(100) == b"answer"
            routed = lab.routed("a", family) - before
        server.close()
        by_stack = lab.is_routed and lab.status("a").forwarding == "stack"
        assert routed >= 100 if by_stack else routed <= 5, "but for what is left of other tests"


@pytest.fixture
def own_device(tmp_path: Path, loads_of_module: None) -> Iterator[OwnDevice]:
    with ExitStack() as owned:
        yield OwnDevice(tmp_path, owned)


def test_a_pod_with_its_address_on_a_second_device_is_refused(
    own_device: OwnDevice, bundle: Path
) -> None:
    lab = own_device
    with pytest.raises(
        InputError, match="shop/pod-a also has its address on its device eth0"
    ) as no:
        lab.load("a", bundle, None)
    assert "endpoints-a.json" in str(no.value) and no.value.hint and "`interface`" in no.value.hint
    with pytest.raises(AssertionError):
        lab.status("a")
    lab.as_peers.add("pod-a")
    for node in ("a", "b"):
        lab.load(node, bundle, None)
    for family in (4, 6):
        for source, to, allowed in (
            ("pod-a", "pod-b", True),  # as web, which its own node says nothing about
            ("pod-c", "pod-b", False),
            ("client2", "pod-a", True),  # it is not protected
        ):
            seen = reached(lab, source, address(to, family), family, TARGET, to, allowed)
            assert seen == (address(source, family) if allowed else None), (source, to)


def test_other_devices_of_a_pod_are_reported(own_device: OwnDevice, bundle: Path) -> None:
    lab = own_device
    lab.as_peers.add("pod-a")
    lab.load("a", bundle, None)
    assert lab.notes == []
    lab.at["pod-c"].within(lambda: ip("link", "add", "net1", "type", "veth", "peer", "name", "far"))
    lab.load("a", bundle, None)
    assert lab.notes == [], "it is down"
    lab.at["pod-c"].within(lambda: ip("link", "set", "net1", "up"))
    lab.load("a", bundle, None)
    assert len(lab.notes) == 1 and lab.notes[0].startswith("shop/pod-c has other devices (net1)")


def test_a_bridge_with_pods_on_it_is_no_uplink(tmp_path: Path, bundle: Path) -> None:
    with ExitStack() as owned:
        lab = AzureBridge(tmp_path, owned)
        lab.uplinks = (BRIDGE,)
        with pytest.raises(InputError, match=r"azure0: azvpod-[ac], which leads to a pod"):
            lab.load("a", bundle, None)
