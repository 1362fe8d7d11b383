# SPDX-License-Identifier: Apache-2.0
"""ICMP and ICMPv6 echo over raw sockets: many probes share one socket, distinguished by id."""

import asyncio
import contextlib
import errno
import itertools
import secrets
import socket
import struct

from policyc.runtime.lab.control import ControlFlow
from policyc.runtime.lab.probes import Family

_ECHO_REQUEST: dict[Family, int] = {4: 8, 6: 128}
_ECHO_REPLY: dict[Family, int] = {4: 0, 6: 129}
_UNREACHABLE: dict[Family, int] = {4: 3, 6: 1}
_IPV6_HEADER = 40
_HEADER = struct.Struct("!BBHHH")  # type, code, checksum, id, sequence number
_RECEIVE_BUFFER = 1 << 20


class Echo:
    """Echo requests from one address; the kernel at the other end answers them.

    Every probe has its own id, so each is a flow of its own to a connection tracker.
    """

    def __init__(self, source: str, family: Family, control: ControlFlow) -> None:
        """Open the raw socket, in the network namespace that the calling thread is in."""
        self._family = family
        self._control = control
        self._ids = itertools.count(secrets.randbelow(1 << 16))
        self._waiting: dict[int, tuple[str, asyncio.Future[None]]] = {}
        if family == 4:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        else:
            self._socket = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        self._socket.bind((source, 0))
        asyncio.get_running_loop().add_reader(self._socket, self._drain)

    def close(self) -> None:
        """Stop listening; probes still waiting stay without an answer."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    async def probe(self, destination: str, waits: tuple[float, ...]) -> None:
        """Return when a reply is there; OSError when refused; TimeoutError after all waits."""
        loop = asyncio.get_running_loop()
        ident = next(self._ids) & 0xFFFF
        answered = loop.create_future()
        self._waiting[ident] = (destination, answered)
        try:
            for sequence, wait in enumerate(waits, 1):
                self._socket.sendto(echo_request(self._family, ident, sequence), (destination, 0))
                with contextlib.suppress(TimeoutError):
                    async with self._control.timeout(wait):
                        await asyncio.shield(answered)  # raises when the probe was refused
                        return
        finally:
            del self._waiting[ident]
        raise TimeoutError

    def _drain(self) -> None:
        while True:
            try:
                packet, sender = self._socket.recvfrom(2048)
            except BlockingIOError:
                return
            except OSError:  # an error about an earlier packet; its own message is clearer
                continue
            self._take(packet, sender[0])

    def _take(self, packet: bytes, sender: str) -> None:
        message = packet[(packet[0] & 0x0F) * 4 :] if self._family == 4 else packet
        if len(message) < _HEADER.size:
            return
        kind, code, _, ident, _ = _HEADER.unpack_from(message)
        if kind == _ECHO_REPLY[self._family]:
            self._settle(ident, sender, None)
        elif kind == _UNREACHABLE[self._family]:
            quoted = quoted_echo(self._family, message)
            error = OSError(errno.EHOSTUNREACH, f"ICMP unreachable, code {code}, from {sender}")
            if quoted is not None:
                self._settle(quoted, None, error)

    def _settle(self, ident: int, sender: str | None, error: OSError | None) -> None:
        destination, answered = self._waiting.get(ident, ("", None))
        if answered is None or answered.done() or sender not in (None, destination):
            return
        if error is None:
            answered.set_result(None)
        else:
            answered.set_exception(error)


def echo_request(family: Family, ident: int, sequence: int) -> bytes:
    """An echo request; the kernel fills in the checksum of ICMPv6."""
    payload = b"policyc"
    request = _HEADER.pack(_ECHO_REQUEST[family], 0, 0, ident, sequence) + payload
    if family == 6:
        return request
    checked = _HEADER.pack(_ECHO_REQUEST[4], 0, checksum(request), ident, sequence)
    return checked + payload


def checksum(data: bytes) -> int:
    """The Internet checksum of RFC 1071."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def quoted_echo(family: Family, message: bytes) -> int | None:
    """The id of the echo request that an ICMP error quotes; None when it quotes something else."""
    quoted = message[_HEADER.size :]
    if not quoted:
        return None
    inner = quoted[(quoted[0] & 0x0F) * 4 :] if family == 4 else quoted[_IPV6_HEADER:]
    if len(inner) < _HEADER.size:
        return None
    kind, _, _, ident, _ = _HEADER.unpack_from(inner)
    return ident if kind == _ECHO_REQUEST[family] else None
