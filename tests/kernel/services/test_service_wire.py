# SPDX-License-Identifier: Apache-2.0
"""Real sockets through a Service: streams and datagrams, both families, with and without offloads."""

import os

import pytest

from tests.kernel.support.arrival import SILENCE, WAITS
from tests.kernel.support.node_under_test import (
    HOSTS,
    UPLINK,
    NodeUnderTest,
    ip,
)
from tests.kernel.support.service_exchange import (
    TCP,
    UDP,
    received,
    served,
)
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
)
from tests.kernel.support.table_policy import (
    ANY,
    TablePolicy,
    tcp_port,
    udp_port,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
ENDPOINTS = {"a pod of the node": "b", "a pod elsewhere": "c", "the node": None}
CHUNK, CHUNKS = 30_000, 6
LARGE = 5000  # bytes of a datagram that takes four packets


def allowed(node: NodeUnderTest) -> TablePolicy:
    return node.policy().allow("a", "b", ANY).allow("a", "c", ANY).allow("a", "world", ANY)


@families
@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=ENDPOINTS.keys())
@pytest.mark.parametrize(
    "offloads",
    [(tx, gso) for tx in (True, False) for gso in (True, False)],
    ids=lambda on: f"tx {on[0]} gso {on[1]}",
)
def test_streams_and_datagrams_arrive_whole(
    node: NodeUnderTest,
    wire: ServiceWire,
    family: int,
    endpoint: str | None,
    offloads: tuple[bool, bool],
) -> None:
    for pod in ("a", *(() if endpoint is None else (endpoint,))):
        wire.offload(pod, *offloads)
    node.load(allowed(node), services=served(endpoint))
    listening = wire.server(endpoint, family, TCP, TARGET)
    client = wire.client(family, TCP, PORT)
    assert client
    server, peer = listening.accept()
    with server:
        server.settimeout(WAITS)
        assert peer[:2] == client.getsockname()[:2], "the client under its own address"
        assert peer[0] == HOSTS["a"].address(family)
        for _ in range(CHUNKS):
            data = os.urandom(CHUNK)
            client.sendall(data)
            assert received(server, CHUNK) == data
            server.sendall(data)
            assert received(client, CHUNK) == data
    bound = wire.server(endpoint, family, UDP, TARGET)
    datagrams = wire.client(family, UDP, PORT)
    assert datagrams
    for size in (1, 2, 501, 1400, LARGE, LARGE - 1):
        data = os.urandom(size)
        datagrams.send(data)
        found, peer = bound.recvfrom(2 * LARGE)
        assert found == data and peer[0] == HOSTS["a"].address(family)
        bound.sendto(data, peer)
        assert datagrams.recv(2 * LARGE) == data
    assert wire.bad_checksums() == 0
    assert node.drops() == {}


@families
def test_policy_decides_about_client_and_endpoint(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    wire.server("b", family, TCP, TARGET)
    for policy, is_open in (
        (node.policy().allow("a", "b", tcp_port(TARGET)), True),
        (node.policy().allow("a", "b", tcp_port(PORT)), False),
        (node.policy().allow_egress("a", "b", ANY), False),
        (node.policy().allow_ingress("a", "b", ANY), False),
        (node.policy().allow("a", "world", ANY), False),
    ):
        node.load(policy, services=served("b"))
        patience = WAITS if is_open else SILENCE
        assert bool(wire.client(family, TCP, PORT, patience)) == is_open
    assert node.drops().keys() == {"policy"}


@families
@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=ENDPOINTS.keys())
def test_a_client_is_refused_where_no_process_listens(
    node: NodeUnderTest, wire: ServiceWire, family: int, endpoint: str | None
) -> None:
    """By the endpoint's ICMP error, which quotes a packet that the client never sent."""
    node.load(allowed(node), services=served(endpoint))
    client = wire.client(family, UDP, PORT)
    assert client
    client.send(b"is there anybody?")
    with pytest.raises(ConnectionRefusedError):
        client.recv(100)
    refused = wire.open_socket("a", family, TCP)
    with pytest.raises(ConnectionRefusedError):
        refused.connect((client.getpeername()[0], PORT))
    assert wire.bad_checksums() == 0


@pytest.mark.both_families
@pytest.mark.waits
@families
def test_an_endpoint_learns_that_its_client_has_closed_its_socket(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    node.load(allowed(node), services=served("b"))
    server = wire.server("b", family, UDP, TARGET)
    client = wire.client(family, UDP, PORT)
    assert client
    client.send(b"soon gone")
    _, peer = server.recvfrom(100)
    server.connect(peer)
    client.close()
    server.send(b"anybody?")
    with pytest.raises(ConnectionRefusedError):
        server.recv(100)


@pytest.mark.both_families
@pytest.mark.waits
@families
def test_a_path_with_a_smaller_mtu_is_found(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """The node's error about a packet to the endpoint reaches the client as one about the Service."""
    node.load(allowed(node), services=served("c"))
    listening = wire.server("c", family, TCP, TARGET)
    client = wire.client(family, TCP, PORT)
    assert client
    server, _ = listening.accept()
    ip("link", "set", UPLINK, "mtu", "1300")
    with server:
        server.settimeout(WAITS)
        data = os.urandom(CHUNK)
        client.sendall(data)
        assert received(server, CHUNK) == data
    assert wire.bad_checksums() == 0


@pytest.mark.waits
@families
def test_traffic_moves_with_the_endpoints(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    node.load(allowed(node), services=served("b"))
    servers = {name: wire.server(name, family, UDP, TARGET) for name in ("b", "c")}
    client = wire.client(family, UDP, PORT)
    assert client
    for name in ("b", "c", "b"):
        node.serve(served(name))
        client.send(name.encode())
        data, peer = servers[name].recvfrom(100)
        assert data == name.encode()
        servers[name].sendto(b"yes", peer)
        assert client.recv(100) == b"yes"


def test_only_the_protocol_that_policy_allows_is_open(
    node: NodeUnderTest, wire: ServiceWire
) -> None:
    """UDP beside TCP on the same port of one Service."""
    node.load(node.policy().allow("a", "b", udp_port(TARGET)), services=served("b"))
    server = wire.server("b", 4, UDP, TARGET)
    wire.server("b", 4, TCP, TARGET)
    client = wire.client(4, UDP, PORT)
    assert client
    client.send(b"x")
    assert server.recv(10) == b"x"
    assert wire.client(4, TCP, PORT, SILENCE) is None
