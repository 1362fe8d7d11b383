# SPDX-License-Identifier: Apache-2.0
"""Frames as bytes: small builders that nest, from the inside out, with right checksums.

    frame(a, b, tcp(1000, 80, SYN))              Ethernet and IPv4 between two hosts
    frame(a, b, udp(1, 2), family=6)             the same over IPv6
    frame6(a, b, DSTOPTS, extension(TCP, ...))   headers by hand

Transport builders are functions of the pseudo header, as their checksum needs it.
"""

import ipaddress
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

ETH_IP, ETH_IPV6, ETH_ARP, ETH_VLAN, ETH_LLDP = 0x0800, 0x86DD, 0x0806, 0x8100, 0x88CC
ICMP, IGMP, TCP, UDP, GRE, ESP, AH, ICMP6, NO_NEXT, SCTP = 1, 2, 6, 17, 47, 50, 51, 58, 59, 132
HOPOPTS, ROUTING, FRAGMENT, DSTOPTS = 0, 43, 44, 60
FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
BROADCAST = "ff:ff:ff:ff:ff:ff"
MORE = 0x2000  # of IPv4's fragment word


@dataclass(frozen=True)
class Host:
    """A sender or receiver: its MAC and an address of each family."""

    mac: str
    ip4: str
    ip6: str

    def address(self, family: int) -> str:
        return self.ip4 if family == 4 else self.ip6


@dataclass(frozen=True)
class Payload:
    """A protocol number, and the bytes for given addresses (packed)."""

    proto: int
    build: Callable[[bytes, bytes], bytes]


def mac_bytes(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


@cache
def packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def checksum(data: bytes) -> int:
    """The Internet checksum."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(src: str, dst: str, kind: int, payload: bytes) -> bytes:
    return mac_bytes(dst) + mac_bytes(src) + struct.pack("!H", kind) + payload


def ipv4(
    src: str,
    dst: str,
    proto: int,
    payload: bytes,
    *,
    ident: int = 1,
    fragment: int = 0,
    options: bytes = b"",
    ttl: int = 64,
    total: int | None = None,
) -> bytes:
    """`fragment` is the word as on the wire: offset in eights, and MORE."""
    size = 20 + len(options)
    length = size + len(payload) if total is None else total
    head = struct.pack(
        "!BBHHHBBH4s4s",
        0x40 | size // 4, 0, length, ident, fragment, ttl, proto, 0, packed(src), packed(dst),
    )  # fmt: skip
    total_head = head + options
    return total_head[:10] + struct.pack("!H", checksum(total_head)) + total_head[12:] + payload


def ipv6(
    src: str, dst: str, next_header: int, payload: bytes, *, hop_limit: int = 64,
    length: int | None = None,
) -> bytes:  # fmt: skip
    size = len(payload) if length is None else length
    head = struct.pack("!IHBB", 6 << 28, size, next_header, hop_limit)
    return head + packed(src) + packed(dst) + payload


def frame(
    src: Host, dst: Host, payload: Payload, *, family: int = 4, smac: str | None = None,
    saddr: str | None = None, daddr: str | None = None, **ip: int | bytes,
) -> bytes:  # fmt: skip
    """A whole frame from one host to another; `smac`, `saddr`, `daddr` and IP fields may lie."""
    s, d = saddr or src.address(family), daddr or dst.address(family)
    body = payload.build(packed(s), packed(d))
    make = ipv4 if family == 4 else ipv6
    kind = ETH_IP if family == 4 else ETH_IPV6
    packet = make(s, d, payload.proto, body, **ip)  # type: ignore[arg-type]
    return ethernet(smac or src.mac, dst.mac, kind, packet)


def frame6(src: Host, dst: Host, next_header: int, payload: bytes, **ip: int) -> bytes:
    """An IPv6 frame whose payload begins with any header."""
    packet = ipv6(src.ip6, dst.ip6, next_header, payload, **ip)  # type: ignore[arg-type]
    return ethernet(src.mac, dst.mac, ETH_IPV6, packet)


def _summed(proto: int, at: int, segment: bytes) -> Payload:
    def build(src: bytes, dst: bytes) -> bytes:
        pseudo = src + dst + struct.pack("!II", len(segment), proto)
        value = checksum(pseudo + segment) or 0xFFFF
        return segment[:at] + struct.pack("!H", value) + segment[at + 2 :]

    return Payload(proto, build)


def raw(proto: int, data: bytes) -> Payload:
    return Payload(proto, lambda _src, _dst: data)


def tcp(
    sport: int, dport: int, flags: int = ACK, data: bytes = b"", *, seq: int = 1, ack: int = 1
) -> Payload:
    """The acknowledgement number counts where the flag is set."""
    number = ack if flags & ACK else 0
    head = struct.pack("!HHIIBBHHH", sport, dport, seq, number, 0x50, flags, 8192, 0, 0)
    return _summed(TCP, 16, head + data)


def udp(sport: int, dport: int, data: bytes = b"payload") -> Payload:
    return _summed(UDP, 6, struct.pack("!HHHH", sport, dport, 8 + len(data), 0) + data)


def sctp(sport: int, dport: int, chunk: int = 0) -> Payload:
    """With one empty chunk; 1 is INIT. The CRC is left out: the datapath does not read it."""
    return raw(SCTP, struct.pack("!HHII", sport, dport, 1, 0) + struct.pack("!BBH", chunk, 0, 4))


def icmp(kind: int, code: int = 0, ident: int = 0, sequence: int = 1, data: bytes = b"") -> Payload:
    body = struct.pack("!BBHHH", kind, code, 0, ident, sequence) + data
    return raw(ICMP, body[:2] + struct.pack("!H", checksum(body)) + body[4:])


def icmp6(
    kind: int, code: int = 0, ident: int = 0, sequence: int = 1, data: bytes = b""
) -> Payload:
    return _summed(ICMP6, 2, struct.pack("!BBHHH", kind, code, 0, ident, sequence) + data)


def echo(family: int, ident: int = 7) -> Payload:
    return icmp(8, 0, ident) if family == 4 else icmp6(128, 0, ident)


def echo_reply(family: int, ident: int = 7) -> Payload:
    return icmp(0, 0, ident) if family == 4 else icmp6(129, 0, ident)


def unreachable(family: int, quoted: bytes) -> Payload:
    """An ICMP error (port unreachable) about a packet, which is given from its IP header on."""
    if family == 4:
        return icmp(3, 3, 0, 0, quoted[: 20 + 8])
    return icmp6(1, 4, 0, 0, quoted[: 40 + 8])


def extension(
    next_header: int, payload: bytes, *, words: int = 0, third: int = 0, fourth: int = 0
) -> bytes:
    """An IPv6 extension header of 8 * (words + 1) bytes; a routing header's third is its type."""
    return struct.pack("!BBBB", next_header, words, third, fourth) + bytes(4 + 8 * words) + payload


def fragment6(
    next_header: int, payload: bytes, *, offset: int, more: bool, ident: int = 1
) -> bytes:
    """`offset` in bytes, a multiple of eight."""
    return struct.pack("!BBHI", next_header, 0, offset | more, ident) + payload


def arp(sender: Host, *, sender_ip: str | None = None, sender_mac: str | None = None,
        smac: str | None = None, target: str = "10.0.0.99", operation: int = 1) -> bytes:  # fmt: skip
    body = struct.pack("!HHBBH", 1, ETH_IP, 6, 4, operation)
    body += mac_bytes(sender_mac or sender.mac) + packed(sender_ip or sender.ip4)
    body += bytes(6) + packed(target)
    return ethernet(smac or sender.mac, BROADCAST, ETH_ARP, body)


def neighbour(
    sender: Host, kind: int, *, target: str, saddr: str | None = None, link: str | None = None,
    smac: str | None = None, hop_limit: int = 255, daddr: str = "ff02::1", extra: bytes = b"",
) -> bytes:  # fmt: skip
    """A neighbour solicitation (135) or advertisement (136), with a link-layer option if given.

    `extra` are further options.
    """
    data = packed(target)
    if link:
        data += struct.pack("!BB", 1 if kind == 135 else 2, 1) + mac_bytes(link)
    source = saddr or sender.ip6
    body = icmp6(kind, 0, 0, 0, data + extra).build(packed(source), packed(daddr))
    packet = ipv6(source, daddr, ICMP6, body, hop_limit=hop_limit)
    return ethernet(smac or sender.mac, "33:33:00:00:00:01", ETH_IPV6, packet)


def inner(whole: bytes) -> bytes:
    """The IP packet of a frame."""
    return whole[14:]
