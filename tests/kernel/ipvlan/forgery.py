# SPDX-License-Identifier: Apache-2.0
"""Frames that a pod on a slave forges, and the ways in which it can send them.

A packet socket sends by the slave's queueing discipline, and so by its hook. PACKET_QDISC_BYPASS and
AF_XDP do not.
"""

import socket
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.guest.ipvlan.xdp_socket import send_by_xdp
from tests.kernel.ipvlan.bed import Slaves
from tests.kernel.support import packets
from tests.kernel.support.loaded_lab import PATIENCE, PORT, SILENCE

_QDISC_BYPASS = (263, 20)  # SOL_PACKET, PACKET_QDISC_BYPASS
FORGER = "cart"
"""It has no policy, and `server` would hear from it."""
ELSEWHERE = {4: "198.51.100.77", 6: "2001:db8:51::77"}
"""The server hears from this address of the network; no pod has it."""
Send = Callable[[Slaves, bytes], None]


def by_packet_socket(lab: Slaves, frame: bytes) -> None:
    """By the slave's queueing discipline."""
    send_frame(lab, FORGER, frame)


def past_the_qdisc(lab: Slaves, frame: bytes) -> None:
    """With PACKET_QDISC_BYPASS."""
    send_frame(lab, FORGER, frame, is_bypass=True)


def send_frame(lab: Slaves, name: str, frame: bytes, *, is_bypass: bool = False) -> None:
    """By a packet socket of that end."""

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as at:
            at.bind(("eth0", 0))
            if is_bypass:
                at.setsockopt(*_QDISC_BYPASS, 1)
            with suppress(OSError):  # dropped at the slave: ENOBUFS
                at.send(frame)

    lab.within(name, send)


def by_xdp(lab: Slaves, frame: bytes) -> None:
    """By AF_XDP."""
    lab.within(FORGER, lambda: send_by_xdp("eth0", frame))


ways = pytest.mark.parametrize("send", [by_packet_socket, past_the_qdisc, by_xdp])


def forged(lab: Slaves, target: str, source: str, family: int, mac: str | None = None) -> bytes:
    """A datagram to the port of the target, from an address that is not the forger's.

    `mac` is then source and destination of the frame.
    """
    own, to = lab.host(FORGER), lab.host(target)
    end = packets.Host(mac or own.mac, source, source)
    if mac:
        to = packets.Host(mac, to.ip4, to.ip6)
    return packets.frame(end, to, packets.udp(777, PORT, b"forged"), family=family)


def hears_nothing(lab: Slaves, target: str, family: int, attack: Callable[[], None]) -> None:
    """The target hears a true datagram that is sent after the attack, and nothing before it."""
    with (
        lab.socket(target, socket.SOCK_DGRAM, family, PORT) as server,
        lab.socket(FORGER, socket.SOCK_DGRAM, family) as client,
    ):
        attack()
        client.sendto(b"true", (lab.address(target, family), PORT))
        server.settimeout(PATIENCE)
        assert server.recv(100) == b"true"
        server.settimeout(SILENCE)
        with pytest.raises(TimeoutError):
            server.recv(100)
