# SPDX-License-Identifier: Apache-2.0
"""scapy parses and rebuilds the frames of the kernel tests: every length and checksum agrees."""

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    IPv6,
    IPv6ExtHdrFragment,
)
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet

from tests.kernel.support import (
    fragments,
    packets,
)
from tests.kernel.support.packets import (
    ACK,
    FIN,
    MORE,
    RST,
    SYN,
    Host,
    Payload,
)

SRC = Host("02:00:00:00:00:01", "10.0.0.1", "fd00::1")
DST = Host("02:00:00:00:00:02", "10.0.0.2", "fd00::2")
_COMPUTED = "len", "plen", "ihl", "dataofs", "chksum", "cksum"
families = pytest.mark.parametrize("family", [4, 6])


def anew(frame: bytes) -> bytes:
    """With what follows from the rest left to scapy; what an error quotes stays as it was."""
    packet = Ether(frame)
    layer: Packet = packet
    while layer.name not in ("NoPayload", "Raw") and "in ICMP" not in layer.name:
        for field in _COMPUTED:
            if field in layer.fields:
                delattr(layer, field)
        layer = layer.payload
    return bytes(packet)


def of(payload: Payload, family: int, **ip: int) -> bytes:
    return packets.frame(SRC, DST, payload, family=family, **ip)


@families
@pytest.mark.parametrize("flags", [SYN, SYN | ACK, ACK, FIN | ACK, RST], ids=hex)
@pytest.mark.parametrize("data", [b"", b"odd"])
def test_tcp(family: int, flags: int, data: bytes) -> None:
    frame = of(packets.tcp(1000, 80, flags, data), family)
    assert anew(frame) == frame
    read = Ether(frame)[TCP]
    assert (read.sport, read.dport, int(read.flags)) == (1000, 80, flags)
    assert bytes(read.payload) == data


@families
@pytest.mark.parametrize("size", [0, 1, 8, 1400])
def test_udp(family: int, size: int) -> None:
    frame = of(
        packets.udp(53, 5353, bytes(range(256)) * 6 if size == 1400 else b"x" * size), family
    )
    assert anew(frame) == frame
    assert (Ether(frame)[UDP].sport, Ether(frame)[UDP].dport) == (53, 5353)


@families
def test_echo(family: int) -> None:
    kinds = (8, 0) if family == 4 else (128, 129)
    for made, kind in zip((packets.echo, packets.echo_reply), kinds, strict=True):
        frame = of(made(family, 77), family)
        assert anew(frame) == frame
        layer = Ether(frame)[
            ICMP if family == 4 else (ICMPv6EchoRequest, ICMPv6EchoReply)[kind - 128]
        ]
        assert (layer.type, layer.id) == (kind, 77)


@families
def test_errors(family: int) -> None:
    about = of(packets.udp(53, 5353), family)
    frame = of(packets.unreachable(family, packets.inner(about)), family)
    assert anew(frame) == frame
    layer = Ether(frame)[ICMP if family == 4 else ICMPv6DestUnreach]
    assert (layer.type, layer.code) == ((3, 3) if family == 4 else (1, 4))
    quoted = layer.payload
    assert (quoted.src, quoted.dst) == (SRC.address(family), DST.address(family))


@families
def test_fragments(family: int) -> None:
    segment = fragments.udp_segment(SRC, DST, 53, 5353, bytes(3000), family)
    first, *later = fragments.cut(SRC, DST, segment, (1200, 1200), family, ident=9)
    whole = b""
    for at, frame in enumerate((first, *later)):
        layer = Ether(frame)[IP if family == 4 else IPv6ExtHdrFragment]
        assert layer.id == 9
        assert (layer.frag if family == 4 else layer.offset) == 150 * at
        more = layer.flags.MF if family == 4 else layer.m
        assert bool(more) == (at < 2)
        whole += bytes(layer.payload)
        ip = Ether(frame)[IP if family == 4 else IPv6]
        before = bytes(ip)
        for field in _COMPUTED:
            if field in ip.fields:
                delattr(ip, field)
        assert bytes(ip) == before
    assert whole == segment
    assert MORE == 0x2000


def test_arp() -> None:
    read = Ether(packets.arp(SRC, target="10.0.0.9"))[ARP]
    assert (read.op, read.hwsrc, read.psrc, read.pdst) == (1, SRC.mac, SRC.ip4, "10.0.0.9")


@pytest.mark.parametrize(("kind", "layer"), [(135, ICMPv6ND_NS), (136, ICMPv6ND_NA)])
def test_neighbours(kind: int, layer: type[Packet]) -> None:
    frame = packets.neighbour(SRC, kind, target="fd00::2")
    assert anew(frame) == frame
    assert Ether(frame)[layer].tgt == "fd00::2"
    assert Ether(frame)[IPv6].hlim == 255
