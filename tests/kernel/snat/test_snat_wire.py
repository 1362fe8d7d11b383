# SPDX-License-Identifier: Apache-2.0
"""Real pods reach real servers outside the cluster, which see the node's address."""

import errno
import ipaddress
import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from policyc.runtime.devices.uplinks import ReturnPath
from policyc.runtime.kernel import features
from policyc.runtime.snat.snat import Masquerade
from tests.eventually import eventually
from tests.kernel.support.arrival import WAITS
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import (
    BULK,
    NODE_PORT,
    OFFLOADS,
    POLICY,
    exchange,
    services,
)
from tests.kernel.support.node_under_test import (
    NODE,
    UPLINK,
    A,
    B,
    C,
    NodeUnderTest,
    endpoint,
    ip,
)
from tests.kernel.support.packets import checksum
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.table_policy import ANY
from tests.kernel.support.two_nodes import UPLINK as WIRE_UPLINK
from tests.kernel.support.two_nodes import (
    TwoNodes,
    address,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM
PORT = 8080
PORTS = range(50000, 51000)
SERVER = "client1"
"""Whoever is outside may serve as well."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One client alone may reach the pods; answers to what they have asked need no rule."""
    policy = POLICY.replace(address("client1", 4), address("client2", 4))
    return compiled(tmp_path_factory.mktemp("masquerade"), policy)


def connected(lab: TwoNodes, family: int, pod: str) -> tuple[socket.socket, socket.socket, str]:
    """A connection of the pod to the server: both ends, and the address that the server sees."""
    listening = lab.server(SERVER, family, TCP, PORT)
    client = lab.connect(pod, family, address(SERVER, family), PORT)
    assert client
    server, peer = listening.accept()
    listening.close()
    return client, server, str(peer[0])


@pytest.mark.waits
@families
def test_the_server_sees_the_nodes_address_and_without_the_option_the_pods(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """One of two nodes has the option. Pods of both get replies."""
    lab.load("a", bundle, None, masquerade=Masquerade(PORTS))
    lab.load("b", bundle, None)
    for pod, expected in (("pod-a", address("a", family)), ("pod-b", address("pod-b", family))):
        client, server, seen = connected(lab, family, pod)
        with server:
            assert seen == expected
            exchange(client, server, BULK)
    client, server, seen = connected(lab, family, "pod-a")
    lab.load("a", bundle, None, masquerade=Masquerade(PORTS))
    with server:
        exchange(client, server, 20_000)
    assert lab.drops() == {} and lab.bad_checksums() == 0


@pytest.mark.waits
@families
def test_packets_between_pods_and_nodes_keep_their_addresses(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    for node in ("a", "b"):
        lab.load(node, bundle, None, masquerade=Masquerade(PORTS))
    listening = lab.server("b", family, TCP, PORT)
    client = lab.connect("pod-a", family, address("b", family), PORT)
    assert client
    server, peer = listening.accept()
    server.close()
    assert peer[0] == address("pod-a", family)
    direct = lab.server("pod-a", family, TCP, PORT)
    if family == 4:  # the policy lets client2 in
        outside = lab.connect("client2", family, address("pod-a", family), PORT)
        assert outside and outside.getpeername()[0] == address("pod-a", family)
        server, peer = direct.accept()
        with server:
            assert peer[0] == address("client2", family)
            exchange(outside, server, 20_000)


@pytest.mark.both_families
@pytest.mark.waits
@families
@pytest.mark.parametrize("offloads", OFFLOADS, ids=str)
def test_streams_and_datagrams_arrive_with_any_offloads(
    lab: TwoNodes, bundle: Path, family: int, offloads: tuple[bool, bool]
) -> None:
    """Large packets and checksums left to the device. Datagrams with and without fragments."""
    lab.offload(*offloads)
    lab.load("a", bundle, None, masquerade=Masquerade(PORTS))
    client, server, seen = connected(lab, family, "pod-a")
    with server:
        assert seen == address("a", family)
        exchange(client, server, BULK)
    served = lab.server(SERVER, family, UDP, PORT)
    asking = lab.open_socket("pod-a", family, UDP)
    asking.connect((address(SERVER, family), PORT))
    for size in (1, 2, 501, 1400, 5000, 4999):
        data = os.urandom(size)
        asking.send(data)
        found, peer = served.recvfrom(9000)
        assert found == data and peer[0] == address("a", family)
        served.sendto(data, peer)
        assert asking.recv(9000) == data
    assert lab.status("a").drops == {} and lab.bad_checksums() == 0


def ping(lab: TwoNodes, who: str, family: int, ident: int) -> bool:
    """Whether the sender of an echo with the id gets the reply."""
    af, proto = (socket.AF_INET, 1) if family == 4 else (socket.AF_INET6, 58)
    made = lab.at[who].within(lambda: socket.socket(af, socket.SOCK_RAW, proto))
    with made:
        made.settimeout(WAITS)
        kind, reply = (8, 0) if family == 4 else (128, 129)
        body = struct.pack("!BBHHH", kind, 0, 0, ident, 1) + b"are you there?"
        if family == 4:
            body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        made.sendto(body, (address(SERVER, family), 0))
        deadline = time.monotonic() + WAITS
        while time.monotonic() < deadline:
            try:
                got, peer = made.recvfrom(2000)
            except TimeoutError:
                return False
            got = got[20:] if family == 4 else got
            if got[0] == reply and peer[0] == address(SERVER, family):
                return got[4:] == body[4:]
    return False


@pytest.mark.waits
@families
def test_a_pod_and_its_node_ping_with_one_id(lab: TwoNodes, bundle: Path, family: int) -> None:
    lab.load("a", bundle, None, masquerade=Masquerade(PORTS))
    for ident in (7, 50001):
        for who in ("pod-a", "a", "pod-a", "a"):
            assert ping(lab, who, family, ident), (who, ident)
    assert lab.status("a").drops == {} and lab.bad_checksums() == 0


def _reported(end: socket.socket) -> tuple[bytes, list[tuple[int, int, bytes]], int, object] | None:
    try:
        return end.recvmsg(2000, 1000, socket.MSG_ERRQUEUE)
    except BlockingIOError:
        return None


def offender(end: socket.socket, family: int) -> tuple[int, str]:
    """The next error of a socket, and the host that reported it."""
    _, told, _, _ = eventually(lambda: _reported(end), "an error is reported")
    ((_, _, data),) = told
    number, (length, at) = struct.unpack_from("=I", data)[0], ((4, 20) if family == 4 else (16, 24))
    raw = data[at : at + length]
    return number, str(ipaddress.ip_address(raw))


@pytest.mark.both_families
@families
def test_traceroute_from_a_pod_shows_every_hop(lab: TwoNodes, bundle: Path, family: int) -> None:
    """Each hop sends an error. The last one says that the port is closed."""
    lab.load("a", bundle, None, masquerade=Masquerade(PORTS))
    probe = lab.open_socket("pod-a", family, UDP)
    level, hops, tell = (
        (socket.IPPROTO_IP, socket.IP_TTL, 11)
        if family == 4
        else (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 25)
    )  # IP_RECVERR, IPV6_RECVERR
    probe.setsockopt(level, tell, 1)
    probe.setblocking(False)
    router = address("a", family)[:-1] + "1"
    found = []
    for limit in (2, 3):
        probe.setsockopt(level, hops, limit)
        probe.sendto(b"who is there?", (address(SERVER, family), 33434 + limit))
        found.append(offender(probe, family))
    assert found == [
        (errno.EHOSTUNREACH, router),
        (errno.ECONNREFUSED, address(SERVER, family)),
    ]
    assert lab.status("a").drops == {} and lab.bad_checksums() == 0


def discovering(end: socket.socket, family: int) -> Callable[[], int]:
    """A connected socket stops fragmenting. Gives its path MTU."""
    level, option, known = (
        (socket.IPPROTO_IP, 10, 14) if family == 4 else (socket.IPPROTO_IPV6, 23, 24)
    )
    end.setsockopt(level, option, 2)  # IP_MTU_DISCOVER, IPV6_MTU_DISCOVER; IP_MTU, IPV6_MTU
    return lambda: end.getsockopt(level, known)


def _mtu(lab: TwoNodes, where: str, device: str, size: int) -> None:
    lab.at[where].within(lambda: ip("link", "set", device, "mtu", str(size)))


@pytest.mark.both_families
@pytest.mark.waits
@families
def test_a_pod_learns_the_path_mtu(lab: TwoNodes, bundle: Path, family: int) -> None:
    """The router behind the node sends an error. The pod's smaller packets then arrive."""
    lab.load("a", bundle, None, masquerade=Masquerade(PORTS))
    for where, device in (("router", f"to-{SERVER}"), (SERVER, WIRE_UPLINK)):
        _mtu(lab, where, device, 1300)
    served = lab.server(SERVER, family, UDP, PORT)
    asking = lab.open_socket("pod-a", family, UDP)
    asking.connect((address(SERVER, family), PORT))
    mtu = discovering(asking, family)
    asking.send(bytes(1400))
    eventually(lambda: mtu() == 1300, "the MTU of the path is known")
    assert asking.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.EMSGSIZE
    asking.send(bytes(1200))
    assert len(served.recv(2000)) == 1200
    assert lab.status("a").drops == {} and lab.bad_checksums() == 0


@pytest.mark.both_families
@pytest.mark.waits
@families
def test_a_server_learns_the_mtu_of_the_pod(lab: TwoNodes, bundle: Path, family: int) -> None:
    """The node's stack sends the error, about a packet that was already translated."""
    lab.load("a", bundle, None, masquerade=Masquerade(PORTS))
    _mtu(lab, "a", lab.device("pod-a"), 1300)
    served = lab.server(SERVER, family, UDP, PORT)
    asking = lab.open_socket("pod-a", family, UDP)
    asking.connect((address(SERVER, family), PORT))
    asking.send(b"how much can you send?")
    _, peer = served.recvfrom(100)
    served.connect(peer)
    mtu = discovering(served, family)
    served.send(bytes(1400))
    eventually(lambda: mtu() == 1300, "the MTU of the path is known")
    assert served.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.EMSGSIZE
    served.send(bytes(1200))
    assert len(asking.recv(2000)) == 1200
    assert lab.status("a").drops == {} and lab.bad_checksums() == 0


@pytest.mark.both_families
@families
def test_a_server_learns_that_the_pods_socket_is_closed(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    lab.load("a", bundle, None, masquerade=Masquerade(PORTS))
    served = lab.server(SERVER, family, UDP, PORT)
    asking = lab.open_socket("pod-a", family, UDP)
    asking.connect((address(SERVER, family), PORT))
    asking.send(b"good-bye")
    _, peer = served.recvfrom(100)
    asking.close()
    served.connect(peer)
    served.send(b"are you there?")
    with pytest.raises(ConnectionRefusedError):
        served.recv(100)
    assert lab.status("a").drops == {} and lab.bad_checksums() == 0


@families
def test_the_nodes_sockets_and_pods_never_share_a_port(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """Although the ranges of both overlap."""
    chosen = Path("/proc/sys/net/ipv4/ip_local_port_range")
    for name in ("a", "pod-a"):
        lab.at[name].within(lambda: chosen.write_text("50000 50063") and None)
    lab.load("a", bundle, None, masquerade=Masquerade(range(50000, 50032)))
    listening = lab.server(SERVER, family, TCP, PORT)
    listening.listen(100)
    ports: dict[str, set[int]] = {"a": set(), "pod-a": set()}
    with ExitStack() as kept:
        for _ in range(20):
            for who, found in ports.items():
                client = lab.connect(who, family, address(SERVER, family), PORT)
                assert client
                server, peer = listening.accept()
                kept.enter_context(server)
                assert peer[0] == address("a", family)
                found.add(peer[1])
                exchange(client, server, 1000)
    assert ports["pod-a"] <= set(range(50000, 50032)) and len(ports["pod-a"]) == 20
    assert ports["a"] <= set(range(50032, 50064))
    lab.unload("a")


@pytest.mark.waits
@families
@pytest.mark.parametrize("return_path", ["tunnel", "dsr"])
def test_external_clients_reach_services_beside_snat(
    lab: TwoNodes, bundle: Path, family: int, return_path: ReturnPath
) -> None:
    """Of either node, under their own address. The pod's own connections leave as the node."""
    lab.check_no_paths("router")
    for node in ("a", "b"):
        lab.load(node, bundle, services("pod-b"), return_path, masquerade=Masquerade(PORTS))
    listening = lab.server("pod-b", family, TCP, PORT)
    caller = "client2" if family == 4 else "client1"  # the client that policy allows
    client = lab.connect(caller, family, address("a", family), NODE_PORT)
    assert client
    server, peer = listening.accept()
    with server:
        assert peer[0] == address(caller, family)
        exchange(client, server, 200_000)
    client, server, seen = connected(lab, family, "pod-b")
    with server:
        assert seen == address("b", family)
        exchange(client, server, 200_000)
    assert lab.drops() == {} and lab.bad_checksums() == 0


@families
@pytest.mark.parametrize("mode", ["tcx", "clsact"])
def test_two_pods_with_one_source_port_reach_one_server(
    node: NodeUnderTest, family: int, mode: str
) -> None:
    """Both send to the server at once."""
    if mode == "tcx" and not features.TCX.is_there():
        mode = "clsact"
    with ExitStack() as owned:
        wire = ServiceWire(node, owned)
        entries = [endpoint("a", A, "pca"), endpoint("b", B, "pcb")]
        node.load(
            node.policy().allow("a", "world", ANY).allow("b", "world", ANY),
            entries=entries, uplinks=[UPLINK], masquerade=Masquerade(PORTS), mode=mode,
        )  # fmt: skip
        listening = wire.server("c", family, TCP, PORT)
        ends = []
        for pod, host in (("a", A), ("b", B)):
            client = wire.open_socket(pod, family, TCP)
            client.bind((host.address(family), 50500))
            client.connect((C.address(family), PORT))
            server, peer = listening.accept()
            assert peer[0] == NODE.address(family)
            owned.enter_context(server)
            ends.append((client, server, peer[1]))
        assert ends[0][2] == 50500 != ends[1][2]
        for client, server, _ in ends:
            exchange(client, server, 20_000)
        assert node.drops() == {} and wire.bad_checksums() == 0
