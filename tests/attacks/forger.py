# SPDX-License-Identifier: Apache-2.0
"""An attacker that makes its own stack accept a connection that no other end has opened.

It sends itself the SYN and the ACK of a victim by a raw socket. Its kernel takes them from the
loopback device, and no hook sees them. CAP_NET_RAW is all that it needs. Its sockets ignore resets.
"""

import ctypes
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.kernel.support.arrival import WAITS
from tests.kernel.support.packets import (
    ACK,
    RST,
    SYN,
    TCP,
    Host,
    frame,
    inner,
    tcp,
)

OWN_PORT = 5555
FIRST_SEQ = 1000
"""Of the connection that is not there, at the victim's end."""
_ESTABLISHED = 1
_ETH_ALL = 3
_SO_ATTACH_FILTER = 26
_NO_RESETS = ((0x30, 0, 0, 13), (0x45, 0, 1, RST), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFF))
"""Classic BPF: the flags of the TCP header are loaded; a segment with RST is dropped."""

Within = Callable[[Callable[[], socket.socket]], socket.socket]


@dataclass(frozen=True)
class End:
    """Makes sockets in its namespace."""

    within: Within
    address: str

    def socket(self, kind: int, proto: int = 0) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        return self.within(lambda: socket.socket(family, kind, proto))


@dataclass(frozen=True)
class Segment:
    """Of TCP."""

    sport: int
    dport: int
    seq: int
    ack: int
    flags: int
    data: bytes


class Forger:
    """The attacker, and what comes to the victim of it; `own` closes a socket with the test."""

    def __init__(
        self,
        attacker: End,
        device: str,
        victim: End,
        victim_port: int,
        own: Callable[[socket.socket], socket.socket],
    ) -> None:
        self._attacker, self._victim, self._own = attacker, victim, own
        self._ports = OWN_PORT, victim_port
        self._listening = own(attacker.socket(socket.SOCK_STREAM))
        self._listening.bind((attacker.address, OWN_PORT))
        _ignore_resets(self._listening)
        self._listening.listen()
        self._raw = own(attacker.socket(socket.SOCK_RAW, socket.IPPROTO_RAW))
        self._tap = own(attacker.within(lambda: _packet_socket(device)))
        self._ear = own(victim.socket(socket.SOCK_RAW, socket.IPPROTO_TCP))
        self._mouth = own(victim.socket(socket.SOCK_RAW, socket.IPPROTO_RAW))

    def half_opens(self) -> Segment:
        """The SYN-ACK by which the attacker's stack answers the forged SYN."""
        self._says(self._raw, SYN, FIRST_SEQ)
        answer = next(self._leaving())
        assert (answer.flags, answer.ack) == (SYN | ACK, FIRST_SEQ + 1)
        return answer

    def accepts(self) -> socket.socket:
        """An established connection with the victim, of which the victim knows nothing."""
        answer = self.half_opens()
        self._says(self._raw, ACK, FIRST_SEQ + 1, answer.seq + 1)
        self._listening.settimeout(WAITS)
        accepted, peer = self._listening.accept()
        assert peer[:2] == (self._victim.address, self._ports[1])
        state = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        assert state == bytes([_ESTABLISHED])
        # Without resets an orphan would stay, and hold its device.
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return self._own(accepted)

    def is_reset(self) -> None:
        """The victim's stack answers what it knows nothing about, as it would late."""
        self._says(self._mouth, RST, FIRST_SEQ + 1)

    def reaching(self, seconds: float) -> Iterator[Segment]:
        """The attacker's segments that come to the victim in this time, or came before."""
        end = time.monotonic() + seconds
        while True:
            self._ear.settimeout(max(end - time.monotonic(), 0))
            try:
                packet = self._ear.recv(65536)
            except (TimeoutError, BlockingIOError):
                return
            # a raw socket of IPv6 gives no IP header
            yield from self._of_connection(packet if ":" in self._victim.address else packet[20:])

    def _leaving(self) -> Iterator[Segment]:
        """What the attacker's device sends, before any hook sees it."""
        while True:
            packet = self._tap.recv(65536)
            if packet[0] >> 4 == 4 and packet[9] == TCP:
                yield from self._of_connection(packet[20:])
            elif packet[0] >> 4 == 6 and packet[6] == TCP:
                yield from self._of_connection(packet[40:])

    def _of_connection(self, raw: bytes) -> Iterator[Segment]:
        sport, dport, seq, ack, offset, flags = struct.unpack_from("!HHIIBB", raw)
        if (sport, dport) == self._ports:
            yield Segment(sport, dport, seq, ack, flags, raw[(offset >> 4) * 4 :])

    def _says(self, raw: socket.socket, flags: int, seq: int, ack: int = 0) -> None:
        """A segment with the victim's address, by a socket of either."""
        victim, attacker = self._victim.address, self._attacker.address
        family = 6 if ":" in victim else 4
        segment = tcp(self._ports[1], self._ports[0], flags, seq=seq, ack=ack)
        made = frame(_ANYONE, _ANYONE, segment, family=family, saddr=victim, daddr=attacker)
        raw.sendto(inner(made), (attacker, 0))


_ANYONE = Host("02:00:00:00:00:01", "", "")  # a raw socket sends no MACs


def _packet_socket(device: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_ALL))
    made.bind((device, _ETH_ALL))
    made.settimeout(WAITS)
    return made


def _ignore_resets(listening: socket.socket) -> None:
    """Also those of the sockets that it accepts."""
    code = b"".join(struct.pack("=HBBI", *each) for each in _NO_RESETS)
    held = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(_NO_RESETS), ctypes.addressof(held))
    listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
