# SPDX-License-Identifier: Apache-2.0
"""Datagrams in fragments, as frames, in any order, and senders of them in a namespace."""

import socket
from collections.abc import Sequence

from tests.kernel.support.packets import (
    ETH_IP,
    ETH_IPV6,
    FRAGMENT,
    MORE,
    UDP,
    Host,
    ethernet,
    extension,
    fragment6,
    ipv4,
    ipv6,
    packed,
    udp,
)

DSTOPTS = 60


def cut(
    src: Host, dst: Host, segment: bytes, sizes: Sequence[int], family: int, *,
    ident: int = 1, proto: int = UDP, hops: int = 64, whole: bool = False, options: bool = False,
) -> list[bytes]:  # fmt: skip
    """Frames with pieces of the segment: so many bytes each, multiples of eight, and the rest.

    `whole` sets IPv4's "don't fragment"; `options` puts IPv6 destination options before the fragments.
    """
    pieces, at = [], 0
    for size in (*sizes, len(segment) - sum(sizes)):
        pieces.append((at, segment[at : at + size]))
        at += size
    return [
        piece(src, dst, data, offset, offset + len(data) < len(segment), family, ident=ident,
              proto=proto, hops=hops, whole=whole, options=options)
        for offset, data in pieces
    ]  # fmt: skip


def piece(
    src: Host, dst: Host, data: bytes, offset: int, more: bool, family: int, *, ident: int = 1,
    proto: int = UDP, hops: int = 64, whole: bool = False, options: bool = False,
) -> bytes:  # fmt: skip
    """One fragment, whatever it overlaps."""
    s, d = src.address(family), dst.address(family)
    if family == 4:
        word = offset // 8 | (MORE if more else 0) | (0x4000 if whole else 0)
        body = ipv4(s, d, proto, data, ident=ident, fragment=word, ttl=hops)
        return ethernet(src.mac, dst.mac, ETH_IP, body)
    body = fragment6(proto, data, offset=offset, more=more, ident=ident)
    if options:
        packet = ipv6(s, d, DSTOPTS, extension(FRAGMENT, body), hop_limit=hops)
    else:
        packet = ipv6(s, d, FRAGMENT, body, hop_limit=hops)
    return ethernet(src.mac, dst.mac, ETH_IPV6, packet)


def udp_segment(src: Host, dst: Host, sport: int, dport: int, data: bytes, family: int) -> bytes:
    """With its checksum."""
    payload = udp(sport, dport, data)
    return payload.build(packed(src.address(family)), packed(dst.address(family)))


def two_pieces(
    src: Host, dst: Host, sport: int, dport: int, family: int, ident: int
) -> list[bytes]:
    """A small datagram: 24 bytes with its ports, and the rest."""
    segment = udp_segment(src, dst, sport, dport, bytes(40), family)
    return cut(src, dst, segment, (24,), family, ident=ident)


def send(device: str, frames: Sequence[bytes]) -> None:
    """By the device of that name in this thread's namespace."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((device, 0))
        for frame in frames:
            wire.send(frame)
