# SPDX-License-Identifier: Apache-2.0
"""A pod that no load lists: a veth with a stack behind it, on the node of a `ServiceWire`."""

import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from tests.eventually import eventually
from tests.kernel.support.arrival import SILENCE, connects, is_silent
from tests.kernel.support.node_under_test import (
    HOSTS,
    NEW,
    NODE,
    NodeUnderTest,
    ip,
)
from tests.kernel.support.packets import Host
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.wire import link_address

DEVICE = "veth1a2b"
PATTERN = "veth????"
OTHER_ETHERTYPE = 0x88B5  # for local experiments (IEEE 802)
_ALL = 3  # ETH_P_ALL
_AGAIN = 1.0
"""Seconds until a frame is sent again. All veths of the machine share one queue for each CPU, of 1000
frames: while a flood in another namespace fills it, the kernel drops any frame, before any hook.
"""


def make_device(node: NodeUnderTest, device: str = DEVICE) -> None:
    """Up at both sides."""
    peer = f"{device}.p"
    ip("link", "add", device, "type", "veth", "peer", "name", peer)
    for side in (device, peer):
        ip("link", "set", side, "up")
    node.ifindex[device] = socket.if_nametoindex(device)


class NewPod:
    """Its sent and received packets, as sockets and the devices see them."""

    def __init__(self, node: NodeUnderTest, wire: ServiceWire, device: str = DEVICE) -> None:
        self.node, self.wire, self.device = node, wire, device
        make_device(node, device)
        wire.connect("new", device)

    def reaches(self, to: str | None, family: int, patience: float = SILENCE) -> bool:
        """Whether a datagram of the pod arrives at another pod, the world (c), or the node."""
        return self._passes("new", to, family, patience)

    def is_reached(self, by: str | None, family: int, patience: float = SILENCE) -> bool:
        """Whether a datagram arrives at the pod."""
        return self._passes(by, "new", family, patience)

    def connects(self, to: str | None, family: int, patience: float = SILENCE) -> bool:
        """Whether a TCP connection of the pod is accepted."""
        with self.wire.server(to, family, socket.SOCK_STREAM, 0) as server:
            client = self.wire.open_socket("new", family, socket.SOCK_STREAM)
            where = HOSTS[to or "node"].address(family), server.getsockname()[1]
            try:
                return connects(client, where, patience)
            except OSError:
                return False

    def _passes(self, src: str | None, dst: str | None, family: int, patience: float) -> bool:
        with (
            self.wire.server(dst, family, socket.SOCK_DGRAM, 0) as server,
            self.wire.server(src, family, socket.SOCK_DGRAM, 0) as client,
        ):
            to = HOSTS[dst or "node"].address(family), server.getsockname()[1]
            try:
                client.sendto(b"?", to)
            except OSError:
                return False
            return not is_silent(server, patience)

    def gets(self, frame: bytes, what: bytes) -> bool:
        """Whether a frame with these bytes comes out at the pod's device after the node has sent one."""
        with self._listening() as heard:
            return self._heard(heard, lambda: self.node_sends(frame), what)

    def is_answered(self, frame: bytes, what: bytes) -> bool:
        """Whether the pod's frame brings one with these bytes back."""
        with self._listening() as heard:
            return self._heard(heard, lambda: heard.send(frame), what)

    def _heard(self, heard: socket.socket, send: Callable[[], object], what: bytes) -> bool:
        before, sending = self._dropped(), _repeated(send)

        def outcome() -> str:
            sending()
            try:
                while True:
                    found, about = heard.recvfrom(2048)
                    if what in found and about[2] != socket.PACKET_OUTGOING:
                        return "heard"
            except BlockingIOError:
                return "dropped" if self._dropped() > before else ""

        return eventually(outcome, "the frame is neither heard nor dropped") == "heard"

    def _dropped(self) -> int:
        return sum(self.node.drops().values())

    def _listening(self) -> socket.socket:
        def listen() -> socket.socket:
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
            made.bind((f"{self.device}.p", _ALL))
            made.setblocking(False)
            return made

        return self.wire.within("new", listen)

    def sends_in_vain(self, frame: bytes, what: str) -> None:
        """By the pod's own device, past its stack, until a hook drops it."""
        before = self._dropped()
        with self._listening() as made:
            sending = _repeated(lambda: made.send(frame))

            def is_dropped() -> bool:
                sending()
                return self._dropped() > before

            eventually(is_dropped, f"{what} is dropped")

    def dropped(self, before: int, what: str) -> None:
        """Wait until more are dropped than that."""
        eventually(lambda: sum(self.node.drops().values()) > before, f"{what} is dropped")

    def node_sends(self, frame: bytes) -> None:
        """By the pod's device, as a process of the node does; a hook's drop is ENOBUFS here."""
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as made:
            made.bind((self.device, 0))
            with suppress(OSError):
                made.send(frame)

    @property
    def host_mac(self) -> str:
        """Of the node's side of the veth."""
        return link_address(self.device)


def _repeated(send: Callable[[], object]) -> Callable[[], None]:
    """Sends when it is called first, and later once a second."""
    due = 0.0

    def step() -> None:
        nonlocal due
        if time.monotonic() >= due:
            send()
            due = time.monotonic() + _AGAIN

    return step


def ethernet(dst: str, src: str, ethertype: int, payload: bytes) -> bytes:
    """A frame, from MACs as text."""
    macs = (bytes.fromhex(each.replace(":", "")) for each in (dst, src))
    return b"".join(macs) + struct.pack("!H", ethertype) + payload


def arp_request(src: Host, target: str) -> bytes:
    """An ARP request for an address."""
    sender = bytes.fromhex(src.mac.replace(":", "")) + socket.inet_aton(src.ip4)
    payload = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + sender + bytes(6)
    return ethernet("ff:ff:ff:ff:ff:ff", src.mac, 0x0806, payload + socket.inet_aton(target))


__all__ = ["DEVICE", "NEW", "NODE", "PATTERN", "NewPod", "arp_request", "ethernet", "make_device"]
