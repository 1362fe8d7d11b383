# SPDX-License-Identifier: Apache-2.0
"""The fast path with real connections: all data arrives, and none leaves by the receiver's device."""

import array
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

import pytest

from policyc.runtime.attach.attach import Mode
from tests.kernel.support.arrival import SILENCE, WAITS, accepted, is_silent
from tests.kernel.support.node_under_test import (
    LOCAL,
    A,
    B,
    NodeUnderTest,
    endpoint,
    ip,
)
from tests.kernel.support.packets import (
    Host,
    checksum,
    mac_bytes,
)
from tests.kernel.support.service_yaml import (
    TARGET,
    VIP,
    web,
)
from tests.kernel.support.table_policy import (
    ANY,
    tcp_port,
)
from tests.kernel.support.wire import (
    Wire,
    link_address,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
THERE = {"the pod": (B, 80), "a Service": (VIP, TARGET)}
MEGABYTES = os.urandom(1 << 20) * 2
OWN = 4  # what the node may send of its own meanwhile, as listener reports
_SIOCETHTOOL = 0x8946
_SET = {"checksums": 0x17, "segments": 0x1F, "gso": 0x24}  # ETHTOOL_STXCSUM, STSO, SGSO
_MSS, _IP_MTU = 1448, 14
_ETH_P_ALL, _SOL_PACKET, _PACKET_AUXDATA, _NOT_READY = 3, 263, 8, 8


@pytest.fixture
def wire(node: NodeUnderTest) -> Iterator[Wire]:
    with ExitStack() as owned:
        yield Wire(node, owned)


def _counters(device: str) -> tuple[int, int]:
    """Packets received and sent by a device of this namespace."""
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == device:
            words = rest.split()
            return int(words[1]), int(words[9])
    raise AssertionError(device)


def _sent_by(device: str) -> int:
    return _counters(device)[1]


def _arrived(wire: Wire, pod: str) -> int:
    found = wire.within(pod, lambda: _counters(f"{LOCAL[pod]}.p"))
    assert isinstance(found, tuple)
    return int(found[0])


def _bad_sums(wire: Wire, pod: str) -> int:
    """TCP segments that the pod has dropped for their checksum."""
    text = wire.within(pod, Path("/proc/thread-self/net/snmp").read_text)
    names, values = (line.split() for line in str(text).splitlines() if line.startswith("Tcp:"))
    return int(values[names.index("InCsumErrors")])


def _set_offload(device: str, what: str, to: bool) -> None:
    value = array.array("B", struct.pack("=II", _SET[what], to))
    request = struct.pack("=16sQ16x", device.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        ioctl(any_socket, _SIOCETHTOOL, request)


@dataclass
class Connection:
    """From pod a to pod b, port 80."""

    client: socket.socket
    server: socket.socket

    def carry(self, forth: bytes, back: bytes = b"") -> tuple[bytes, bytes]:
        """What arrives of it at b, and then at a."""
        return _carried(self.client, self.server, forth), _carried(self.server, self.client, back)


def _carried(sender: socket.socket, receiver: socket.socket, data: bytes) -> bytes:
    sending = threading.Thread(target=sender.sendall, args=(data,))
    sending.start()
    got = bytearray()
    with suppress(TimeoutError):
        while len(got) < len(data):
            got += receiver.recv(1 << 16)
    sending.join()
    return bytes(got)


def _connected(
    wire: Wire, family: int, owned: ExitStack, there: Host = B, port: int = 80
) -> Connection:
    """`there` is pod b, or a Service with it."""
    listener = wire.listen("b", port, family)
    client = wire.connect("a", there.address(family), 80)
    assert client
    server = owned.enter_context(accepted(listener))
    for each in (client, server):
        each.settimeout(WAITS)
    # The first reply must arrive, so that both directions are on the fast path.
    connection = Connection(client, server)
    assert connection.carry(b"hello", b"hello") == (b"hello", b"hello")
    return connection


class Tap:
    """Hears what comes in at a pod's device."""

    def __init__(self, wire: Wire, pod: str, owned: ExitStack) -> None:
        wire.within(pod, lambda: self._open(f"{LOCAL[pod]}.p"))
        owned.enter_context(self._socket)

    def _open(self, device: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._socket.bind((device, _ETH_P_ALL))
        self._socket.settimeout(SILENCE)

    def heard(self) -> Iterator[tuple[bytes, bool]]:
        """Frames of TCP for the pod, each with whether its checksum is still to be completed."""
        with suppress(TimeoutError):
            while True:
                whole, extra, _, address = self._socket.recvmsg(1 << 17, 256)
                if address[2] != socket.PACKET_HOST or not _is_tcp(whole):
                    continue
                ((_, _, aux),) = extra
                yield whole, bool(struct.unpack_from("=I", aux)[0] & _NOT_READY)


def _is_tcp(whole: bytes) -> bool:
    return whole[23] == 6 if whole[12:14] == b"\x08\x00" else whole[20] == 6


def _sum(whole: bytes) -> int:
    """Of the TCP segment, 0 if right."""
    is_v4 = whole[12:14] == b"\x08\x00"
    addresses, segment = (whole[26:34], whole[34:]) if is_v4 else (whole[22:54], whole[54:])
    return checksum(addresses + struct.pack("!II", len(segment), 6) + segment)


@families
@pytest.mark.parametrize("there", THERE)
@pytest.mark.parametrize("mode", ["tcx", "clsact"])
def test_nothing_leaves_by_the_receivers_device(
    node: NodeUnderTest, wire: Wire, mode: Mode, there: str, family: int
) -> None:
    host, port = THERE[there]
    node.load(node.policy().allow("a", "b", tcp_port(port)), mode=mode, services=web(B))
    with ExitStack() as owned:
        connection = _connected(wire, family, owned, host, port)
        tap = Tap(wire, "b", owned)
        sent = {pod: _sent_by(LOCAL[pod]) for pod in LOCAL}
        arrived = {pod: _arrived(wire, pod) for pod in LOCAL}
        assert connection.carry(MEGABYTES, MEGABYTES) == (MEGABYTES, MEGABYTES)
        for pod in LOCAL:
            assert _arrived(wire, pod) - arrived[pod] > 5 * OWN
            assert _sent_by(LOCAL[pod]) - sent[pod] <= OWN
        for whole, _ in tap.heard():
            assert whole[:12] == mac_bytes(B.mac) + mac_bytes(link_address(LOCAL["b"]))
            assert whole[22 if family == 4 else 21] == 63
            if family == 4:
                assert not checksum(whole[14:34])
    assert node.drops() == {}


@pytest.mark.waits
def test_every_packet_on_the_stack_path_leaves_by_the_receivers_device(
    node: NodeUnderTest, wire: Wire
) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)), forward="stack")
    with ExitStack() as owned:
        connection = _connected(wire, 4, owned)
        sent, arrived = _sent_by(LOCAL["b"]), _arrived(wire, "b")
        assert connection.carry(MEGABYTES)[0] == MEGABYTES
        assert _sent_by(LOCAL["b"]) - sent == _arrived(wire, "b") - arrived > 5 * OWN


@families
@pytest.mark.parametrize("there", THERE)
@pytest.mark.parametrize("gso", [True, False])
@pytest.mark.parametrize("sums", [True, False])
def test_streams_arrive_whole_with_and_without_offloads(
    node: NodeUnderTest, wire: Wire, family: int, sums: bool, gso: bool, there: str
) -> None:
    """Without checksum offload, the kernel makes no large packets with either setting."""
    host, port = THERE[there]
    node.load(node.policy().allow("a", "b", tcp_port(port)), services=web(B))
    for pod in LOCAL:
        device = f"{LOCAL[pod]}.p"
        for what, to in (("segments", gso and sums), ("gso", gso), ("checksums", sums)):
            wire.within(pod, lambda d=device, w=what, t=to: _set_offload(d, w, t))
    with ExitStack() as owned:
        connection = _connected(wire, family, owned, host, port)
        tap = Tap(wire, "b", owned)
        sent = _sent_by(LOCAL["b"])
        assert connection.carry(MEGABYTES, MEGABYTES) == (MEGABYTES, MEGABYTES)
        assert _sent_by(LOCAL["b"]) - sent <= OWN
        heard = [each for each in tap.heard() if len(each[0]) > 1000]
    assert heard
    assert all(not_ready == sums for _, not_ready in heard)
    assert (max(len(whole) for whole, _ in heard) > 1514) == (gso and sums)
    if not sums:
        assert not any(_sum(whole) for whole, _ in heard)
    assert [_bad_sums(wire, pod) for pod in LOCAL] == [0, 0]


@pytest.mark.waits
def test_segments_above_the_receivers_mtu_get_an_error_from_the_stack(
    node: NodeUnderTest, wire: Wire
) -> None:
    """The sender learns the receiver's MTU, however large its packets are."""
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    with ExitStack() as owned:
        connection = _connected(wire, 4, owned)
        ip("link", "set", LOCAL["b"], "mtu", "1000")
        assert connection.carry(bytes(20 * _MSS))[0] == bytes(20 * _MSS)
        assert connection.client.getsockopt(socket.IPPROTO_IP, _IP_MTU) == 1000
        sent = _sent_by(LOCAL["b"])
        assert connection.carry(MEGABYTES)[0] == MEGABYTES
        assert _sent_by(LOCAL["b"]) - sent <= OWN


@families
def test_a_change_of_policy_ends_a_redirected_connection(
    node: NodeUnderTest, wire: Wire, family: int
) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    with ExitStack() as owned:
        connection = _connected(wire, family, owned)
        node.load(node.policy().allow("a", "b", ANY))
        assert connection.carry(b"still allowed")[0] == b"still allowed"
        node.load(node.policy())
        connection.server.settimeout(SILENCE)
        assert connection.carry(b"denied by now")[0] == b""
    assert set(node.drops()) == {"policy"}


def test_a_redirected_connection_ends_when_its_pod_is_removed(
    node: NodeUnderTest, wire: Wire
) -> None:
    """First the pod's device is removed, then its entry in the endpoints file."""
    policy = node.policy().allow("a", "b", tcp_port(80))
    node.load(policy)
    with ExitStack() as owned:
        connection = _connected(wire, 4, owned)
        ip("link", "del", LOCAL["b"])
        connection.server.settimeout(SILENCE)
        with suppress(OSError):
            assert connection.carry(b"to nobody")[0] == b""
        node.load(policy, entries=[endpoint("a", A, LOCAL["a"])])
        with suppress(OSError):  # the node has no route there, and may say so
            assert not wire.connect("a", B.ip4, 80, SILENCE)


@families
def test_packets_that_the_host_does_not_forward_are_not_redirected(
    node: NodeUnderTest, wire: Wire, family: int
) -> None:
    node.load(node.policy().allow("a", "b", ANY))
    listener = wire.listen("b", 80, family)
    there = B.address(family)
    ip(f"-{family}", "route", "del", there, "dev", LOCAL["b"])
    ip(f"-{family}", "route", "add", "blackhole", there)
    arrived = _arrived(wire, "b")
    for _ in range(3):
        with suppress(OSError):
            assert not wire.connect("a", there, 80, SILENCE)
    assert _arrived(wire, "b") - arrived <= OWN
    assert is_silent(listener)
