# SPDX-License-Identifier: Apache-2.0
"""Senders: what each makes is called with a port, sends to it, and says what came of it."""

import socket
import struct
import time
from collections.abc import Callable

from tests.guest.ipvlan.pods import ADDRESSES, start
from tests.kernel.support import packets

Send = Callable[[int], str]

WAIT = 1.2
_KINDS = {4: socket.AF_INET, 6: socket.AF_INET6}
_SO_MARK = 36
_QDISC_BYPASS = (263, 20)  # SOL_PACKET, PACKET_QDISC_BYPASS


def udp(source: str, target: str, family: int, mark: int = 0, bind: str = "") -> Send:
    """One datagram and its echo: "reply", "one way", "lost", or the error."""

    def serve(port: int) -> str:
        with socket.socket(_KINDS[family], socket.SOCK_DGRAM) as at:
            at.bind(("", port))
            at.settimeout(WAIT)
            try:
                _, peer = at.recvfrom(100)
            except TimeoutError:
                return "lost"
            at.sendto(b"reply", peer)
            return "one way"

    def ask(port: int) -> str:
        with socket.socket(_KINDS[family], socket.SOCK_DGRAM) as at:
            if mark:
                at.setsockopt(socket.SOL_SOCKET, _SO_MARK, mark)
            at.bind((bind, 0))
            at.settimeout(WAIT)
            at.sendto(b"hello", (ADDRESSES[target][family], port))
            try:
                at.recvfrom(100)
            except TimeoutError:
                return ""
            return "reply"

    def send(port: int) -> str:
        serving = start(target, lambda: serve(port))
        time.sleep(0.15)
        asked = start(source, lambda: ask(port))()
        return (served := serving()) and (asked or served)

    return send


def tcp(source: str, target: str, family: int, size: int = 0) -> Send:
    """A connection by which `size` bytes go: "connected" or "timeout", and how many arrived."""

    def serve(port: int) -> str:
        with socket.socket(_KINDS[family], socket.SOCK_STREAM) as at:
            at.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            at.bind(("", port))
            at.listen()
            at.settimeout(WAIT * 3)
            try:
                peer, _ = at.accept()
            except TimeoutError:
                return "0"
            total = 0
            while part := peer.recv(1 << 20):
                total += len(part)
            return str(total)

    def ask(port: int) -> str:
        with socket.socket(_KINDS[family], socket.SOCK_STREAM) as at:
            at.settimeout(WAIT)
            try:
                at.connect((ADDRESSES[target][family], port))
            except TimeoutError:
                return "timeout"
            at.settimeout(10)
            at.sendall(bytes(size))
            return "connected"

    def send(port: int) -> str:
        serving = start(target, lambda: serve(port))
        time.sleep(0.15)
        asked = start(source, lambda: ask(port))()
        return f"{asked}, {serving()} bytes"

    return send


def datagram(pod: str, to: str) -> Send:
    """One datagram of IPv4 to a port without a socket."""

    def work(port: int) -> str:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as at:
            at.sendto(b"x", (to, port))
        return "sent"

    return _sent(pod, work)


def raw(pod: str, source: str, to: str) -> Send:
    """A forged datagram by a raw socket."""

    def work(port: int) -> str:
        with socket.socket(_KINDS[_family(to)], socket.SOCK_RAW, socket.IPPROTO_RAW) as at:
            at.sendto(forged(source, to, port), (to, 0))
        return "sent"

    return _sent(pod, work)


def frame(
    pod: str, macs: tuple[str, str], source: str, to: str, bypass: bool = False, mark: int = 0
) -> Send:
    """A forged datagram in a frame from one MAC address to another, by a packet socket."""

    def work(port: int) -> str:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as at:
            at.bind((f"e{pod}", 0))
            if bypass:
                at.setsockopt(*_QDISC_BYPASS, 1)
            if mark:
                at.setsockopt(socket.SOL_SOCKET, _SO_MARK, mark)
            at.send(framed(macs, source, to, port))
        return "sent"

    return _sent(pod, work)


def framed(macs: tuple[str, str], source: str, to: str, port: int) -> bytes:
    kind = packets.ETH_IP if _family(to) == 4 else packets.ETH_IPV6
    return packets.ethernet(*macs, kind, forged(source, to, port))


def forged(source: str, to: str, port: int) -> bytes:
    payload = packets.udp(777, port)
    body = payload.build(packets.packed(source), packets.packed(to))
    make = packets.ipv4 if _family(to) == 4 else packets.ipv6
    return make(source, to, payload.proto, body)


def hears(pod: str, port: int) -> Callable[[], str]:
    """Start a packet socket at the pod's slave; what is returned says whether it read the port."""

    def work() -> str:
        end = time.monotonic() + 2 * WAIT
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as at:
            at.bind((f"e{pod}", 3))
            at.settimeout(0.2)
            while time.monotonic() < end:
                try:
                    if at.recv(2000)[36:38] == struct.pack("!H", port):
                        return f"a packet socket of {pod} reads it"
                except TimeoutError:
                    continue
        return f"a packet socket of {pod} reads nothing"

    heard = start(pod, work)
    time.sleep(0.5)
    return heard


def _family(address: str) -> int:
    return 6 if ":" in address else 4


def _sent(pod: str, work: Send) -> Send:
    def send(port: int) -> str:
        said = start(pod, lambda: work(port))()
        time.sleep(0.3)
        return said

    return send
