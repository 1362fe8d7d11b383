# SPDX-License-Identifier: Apache-2.0
"""ICMP errors about translated packets."""

import pytest

from tests.kernel.support.node_under_test import A
from tests.kernel.support.packets import (
    FRAGMENT,
    MORE,
    UDP,
    Host,
    Payload,
    fragment6,
    frame,
    frame6,
    icmp,
    icmp6,
    inner,
    packed,
    raw,
    tcp,
    udp,
)
from tests.kernel.support.service_yaml import VIP

GATEWAY = "02:00:00:00:00:ff"

ROUTER = Host(GATEWAY, "192.0.2.1", "2001:db8:1::1")


def error(family: int, quoted: bytes, much: bool = False) -> Payload:
    """Too big, or must be fragmented: what path MTU discovery lives on. `much`: quotes all of it."""
    part = quoted if much else quoted[: (20 if family == 4 else 40) + 8]
    if family == 4:
        return icmp(3, 4, 0, 1400, part)
    return icmp6(2, 0, 0, 1400, part)


def seen(host: Host, payload: Payload, family: int) -> bytes:
    """The client's packet as it is behind its hook, to this end, from the IP header on."""
    return inner(frame(A, VIP, payload, family=family, daddr=host.address(family)))


def answered(host: Host, payload: Payload, family: int) -> bytes:
    """The other way."""
    return inner(frame(VIP, A, payload, family=family, saddr=host.address(family)))


PAYLOADS = [
    pytest.param("TCP", tcp, False, id="tcp"),
    pytest.param("TCP", tcp, True, id="tcp, quoted with its checksum"),
    pytest.param("UDP", udp, False, id="udp"),
]

DATA = bytes(range(64))


def fragments(
    src: Host, dst: Host, ports: tuple[int, int], family: int, of: Host, to: Host
) -> tuple[bytes, bytes]:
    """A datagram in two, between `of` and `to` by their addresses."""
    whole = udp(*ports, DATA).build(packed(of.address(family)), packed(to.address(family)))
    if family == 4:
        lies = {"saddr": of.ip4, "daddr": to.ip4}
        return (
            frame(src, dst, raw(UDP, whole[:40]), fragment=MORE, ident=7, **lies),
            frame(src, dst, raw(UDP, whole[40:]), fragment=5, ident=7, **lies),
        )
    ends = Host(src.mac, of.ip4, of.ip6), Host(dst.mac, to.ip4, to.ip6)
    return (
        frame6(*ends, FRAGMENT, fragment6(UDP, whole[:40], offset=0, more=True, ident=7)),
        frame6(*ends, FRAGMENT, fragment6(UDP, whole[40:], offset=40, more=False, ident=7)),
    )
