# SPDX-License-Identifier: Apache-2.0
"""Packets that the kernel changes in transit. They need a wire: a test run forwards nothing."""

import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support.arrival import SILENCE, WAITS, is_silent
from tests.kernel.support.node_under_test import (
    NODE,
    UPLINK,
    WORLD,
    A,
    B,
    NodeUnderTest,
    ip,
)
from tests.kernel.support.packets import (
    DSTOPTS,
    ETH_IPV6,
    FRAGMENT,
    HOPOPTS,
    SYN,
    UDP,
    Host,
    Payload,
    ethernet,
    fragment6,
    frame,
    icmp6,
    ipv6,
    packed,
    tcp,
    udp,
)
from tests.kernel.support.table_policy import (
    ANY,
    tcp_port,
)
from tests.kernel.support.unsummed import (
    _PACKET_VNET_HDR,
    _SOL_PACKET,
    send_unsummed,
)
from tests.kernel.support.wire import link_address

pytestmark = pytest.mark.kernel
_ETH_P_ALL = 3
_PROG_LOAD, _NETFILTER, _LINK_CREATE, _DEFRAG, _PREROUTING = 5, 32, 28, 1, 0
EVIL = b"EVIL" * 300


class Router:
    """The node as a router between its uplink and its pods, whose ends of the wire are listened at.

    The far ends of the veths stay in the node's namespace, without IPv6: only packet sockets hear.
    """

    def __init__(self, owned: ExitStack) -> None:
        self._owned = owned
        self.macs = {}
        for device in ("pca", "pcb", UPLINK):
            conf = Path(f"/proc/sys/net/ipv6/conf/{device}")
            (conf / "addr_gen_mode").write_text("1")
            (conf / "accept_dad").write_text("0")
            (conf / "disable_ipv6").write_text("0")
            self.macs[device] = link_address(device)
        Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")
        for name in ("all", "default", UPLINK, "pca", "pcb"):
            Path(f"/proc/sys/net/ipv4/conf/{name}/rp_filter").write_text("0")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        ip("-6", "addr", "add", f"{NODE.ip6}/128", "dev", UPLINK, "nodad")
        for host, device in ((A, "pca"), (B, "pcb"), (WORLD, UPLINK)):
            for address in (host.ip4, host.ip6):
                ip("route", "add", address, "dev", device)
                ip("neigh", "add", address, "lladdr", host.mac, "dev", device)

    def tap(self, device: str) -> socket.socket:
        """Hears what the node sends through the device."""
        heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self._owned.enter_context(heard)
        heard.bind((f"{device}.p", _ETH_P_ALL))
        return heard

    def defragment(self) -> None:
        """As a node does whose netfilter tracks connections."""
        code = struct.pack("=BBhiBBhi", 0xB7, 0, 0, 1, 0x95, 0, 0, 0)  # return NF_ACCEPT
        insns, license_ = ctypes.create_string_buffer(code, 16), ctypes.create_string_buffer(b"GPL")
        load = bytearray(144)
        struct.pack_into("=IIQQ", load, 0, _NETFILTER, 2, ctypes.addressof(insns),
                         ctypes.addressof(license_))  # fmt: skip
        struct.pack_into("=I", load, 68, 45)  # BPF_NETFILTER
        link = bytearray(64)
        try:
            program = bpf_syscall.bpf(_PROG_LOAD, load)
            self._owned.callback(os.close, program)
            struct.pack_into("=IIII", link, 0, program, 0, 45, 0)
            struct.pack_into("=IIiI", link, 16, socket.AF_INET6, _PREROUTING, -300, _DEFRAG)
            self._owned.callback(os.close, bpf_syscall.bpf(_LINK_CREATE, link))
        except OSError:
            major, minor = map(int, os.uname().release.split(".")[:2])
            if (major, minor) >= (6, 6):  # they are there: then this must work
                raise
            pytest.skip("netfilter links that defragment need Linux 6.6")


@pytest.fixture
def router(node: NodeUnderTest) -> Iterator[Router]:
    with ExitStack() as owned:
        yield Router(owned)


def received(heard: socket.socket, part: bytes, n: int) -> list[bytes]:
    """The frames that come in, and hold the part: n of them, and what comes until it is silent."""
    frames: list[bytes] = []
    while not is_silent(heard, WAITS if len(frames) < n else SILENCE):
        data, sender = heard.recvfrom(70000)
        if sender[2] != socket.PACKET_OUTGOING and part in data:
            frames.append(data)
    return frames


def send(device: str, *frames: bytes) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((f"{device}.p", 0))
        for each in frames:
            wire.send(each)


def _options(next_header: int, words: int) -> bytes:
    """A header of options that are one, which no router knows and all skip."""
    size = 8 * words + 4
    return struct.pack("!BBBB", next_header, words, 0x1E, size) + bytes(size)


# Headers that the first fragment alone has: the node then has to cut the packet anew.
IN_FIRST = {
    "one header": (HOPOPTS, _options(FRAGMENT, 24)),
    "more headers than are walked": (DSTOPTS, _options(DSTOPTS, 3) * 6 + _options(FRAGMENT, 3)),
}


@pytest.mark.parametrize("headers", IN_FIRST)
def test_fragments_of_a_forwarded_packet_are_not_taken_for_the_nodes_own(
    node: NodeUnderTest, router: Router, headers: str
) -> None:
    """ip6_fragment() loses the input device. After netfilter's reassembly the kernel fragments
    again.
    """
    router.defragment()
    node.load(node.policy())
    heard = router.tap("pcb")
    kind, before = IN_FIRST[headers]
    whole = udp(4000, 9999, EVIL).build(packed(WORLD.ip6), packed(B.ip6))

    def to_b(next_header: int, payload: bytes) -> bytes:
        packet = ipv6(WORLD.ip6, B.ip6, next_header, payload)
        return ethernet(WORLD.mac, router.macs[UPLINK], ETH_IPV6, packet)

    send(
        UPLINK,
        to_b(kind, before + fragment6(UDP, whole[:1008], offset=0, more=True, ident=8)),
        to_b(FRAGMENT, fragment6(UDP, whole[1008:], offset=1008, more=False, ident=8)),
    )
    assert received(heard, b"EVIL", 0) == []
    assert set(node.drops()) <= {"policy", "fragment", "ext headers"} and node.drops()


def test_fragments_that_the_node_sends_are_recognised_as_the_nodes(
    node: NodeUnderTest, router: Router
) -> None:
    node.load(node.policy())
    heard = router.tap("pcb")
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"node" * 1250, (B.ip6, 7777))
    assert len(received(heard, b"node", 4)) == 4
    assert node.drops() == {}


def send_scattered(device: str, frame_: bytes, linear: int) -> None:
    """Only so many bytes of it where packets begin in memory, and the others in pages."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((f"{device}.p", 0))
        wire.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        wire.send(struct.pack("=BBHHHH", 0, 0, linear, 0, 0, 0) + frame_)


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("linear", [14, 20, 30, 36, 56])
def test_headers_in_paged_data_are_read(
    node: NodeUnderTest, router: Router, family: int, linear: int
) -> None:
    """A packet larger than a page, with headers outside of the linear part."""
    for device in ("pca", UPLINK):
        for side in (device, f"{device}.p"):
            ip("link", "set", side, "mtu", "9000")
    node.load(node.policy().allow("a", "world", tcp_port(53)))
    heard = router.tap(UPLINK)
    to_node = Host(router.macs["pca"], WORLD.ip4, WORLD.ip6)
    for port in (53, 54):
        payload = tcp(port, port, SYN, b"DATA" * 1250)
        send_scattered("pca", frame(A, to_node, payload, family=family), linear)
    got = received(heard, b"DATA" * 1250, 1)
    at = 14 + (20 if family == 4 else 40)
    assert [each[at : at + 4] for each in got] == [struct.pack("!HH", 53, 53)]
    assert node.drops() == {"policy": 1}


PARTIAL = [
    ("UDP's own checksum", 4, udp(1, 53), 34, 6, True),
    ("TCP's own checksum", 4, tcp(1, 53, SYN), 34, 16, True),
    ("UDP's own checksum over IPv6", 6, udp(1, 53), 54, 6, True),
    ("the checksum of a packet in a tunnel", 4, udp(1, 53, bytes(60)), 62, 6, True),
    ("the destination port", 4, udp(1, 53), 34, 2, False),
    ("TCP's flags", 4, tcp(1, 53), 34, 12, False),
    ("TCP's place, of UDP's length", 4, tcp(1, 53), 34, 6, False),
    ("the destination address", 6, udp(1, 53), 40, 12, False),
    ("what an ICMP error is about", 6, icmp6(128, data=bytes(60)), 54, 30, False),
]


@pytest.mark.parametrize(
    ("family", "payload", "start", "offset", "passes"),
    [c[1:] for c in PARTIAL], ids=[c[0] for c in PARTIAL],
)  # fmt: skip
def test_a_checksum_offload_writes_to_checksum_fields_only(
    node: NodeUnderTest, router: Router, family: int, payload: Payload,
    start: int, offset: int, passes: bool,
) -> None:  # fmt: skip
    """The kernel writes the checksum after the hook. It could overwrite an allowed port or address."""
    node.load(node.policy().allow("a", "world", ANY))
    heard = router.tap(UPLINK)
    to_node = Host(router.macs["pca"], WORLD.ip4, WORLD.ip6)
    send_unsummed("pca", frame(A, to_node, payload, family=family), start, offset)
    assert len(received(heard, packed(A.address(family)), passes)) == passes
    assert node.drops() == ({} if passes else {"malformed": 1})
