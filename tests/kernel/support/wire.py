# SPDX-License-Identifier: Apache-2.0
"""The node's two pods in namespaces of their own, with sockets that live in them."""

import ctypes
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from fcntl import ioctl
from pathlib import Path

from tests.kernel.support.arrival import WAITS, connects
from tests.kernel.support.node_under_test import (
    HOSTS,
    LOCAL,
    NODE,
    NodeUnderTest,
    ip,
)
from tests.kernel.support.packets import Host
from tests.kernel_corpus.surroundings import own_network

GATEWAY, GATEWAY6 = "169.254.1.1", "fe80::1"
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Wire:
    """The node's two pods in namespaces of their own, routed by the node, each with its address."""

    def __init__(self, node: NodeUnderTest, owned: ExitStack) -> None:
        self._owned = owned
        self._here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        owned.callback(os.close, self._here)
        self._pods = {name: self._namespace() for name in LOCAL}
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")
        ip("addr", "add", f"{NODE.ip4}/32", "dev", "lo")
        for name, device in LOCAL.items():
            self._connect(name, device)

    def _namespace(self) -> int:
        with own_network() as inside:
            kept = os.dup(inside)
        self._owned.callback(os.close, kept)
        return kept

    def _connect(self, name: str, device: str) -> None:
        pod, inside = HOSTS[name], f"{device}.p"
        self.move_away(name, device)
        ip("route", "add", f"{pod.ip4}/32", "dev", device)
        conf = Path(f"/proc/sys/net/ipv6/conf/{device}")
        for word, value in (("addr_gen_mode", "1"), ("accept_dad", "0"), ("disable_ipv6", "0")):
            (conf / word).write_text(value)
        ip("route", "add", f"{pod.ip6}/128", "dev", device)
        for address in (pod.ip4, pod.ip6):
            ip("neigh", "add", address, "lladdr", pod.mac, "dev", device, "nud", "permanent")
        own = link_address(device)
        self.within(name, lambda: self._configure(pod, inside, own))

    def move_away(self, pod: str, device: str) -> None:
        """The other side of the device's veth is the pod's from now on."""
        there = f"/proc/{os.getpid()}/fd/{self._pods[pod]}"
        ip("link", "set", f"{device}.p", "netns", there)

    @staticmethod
    def _configure(pod: Host, device: str, gateway_mac: str) -> None:
        Path("/proc/sys/net/ipv6/conf/default/router_solicitations").write_text("0")
        ip("link", "set", "lo", "up")
        ip("link", "set", device, "address", pod.mac, "up")
        ip("addr", "add", f"{pod.ip4}/32", "dev", device)
        ip("addr", "add", f"{pod.ip6}/128", "dev", device, "nodad")
        ip("route", "add", f"{GATEWAY}/32", "dev", device)
        for gateway in (GATEWAY, GATEWAY6):
            ip("neigh", "add", gateway, "lladdr", gateway_mac, "dev", device, "nud", "permanent")
            family = "-4" if gateway == GATEWAY else "-6"
            ip(family, "route", "add", "default", "via", gateway, "dev", device)

    def within(self, pod: str | None, step: Callable[[], object]) -> object:
        """Do something in a pod's namespace; None is the node's."""
        if pod is None:
            return step()
        _libc.setns(self._pods[pod], _CLONE_NEWNET)
        try:
            return step()
        finally:
            _libc.setns(self._here, _CLONE_NEWNET)

    def tcp_socket(self, pod: str | None, family: int = 4) -> socket.socket:
        """A TCP socket that lives in the pod, whichever code uses it."""
        kind = socket.AF_INET if family == 4 else socket.AF_INET6
        made = self.within(pod, lambda: socket.socket(kind, socket.SOCK_STREAM))
        assert isinstance(made, socket.socket)
        self._owned.enter_context(made)
        made.settimeout(WAITS)
        return made

    def listen(self, pod: str | None, port: int, family: int = 4) -> socket.socket:
        server = self.tcp_socket(pod, family)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("0.0.0.0" if family == 4 else "::", port))
        server.listen()
        return server

    def connect(
        self, pod: str | None, address: str, port: int, patience: float = WAITS
    ) -> socket.socket | None:
        """A connection, or None where there was silence; a refusal would be an error."""
        client = self.tcp_socket(pod, 6 if ":" in address else 4)
        return client if connects(client, (address, port), patience) else None


def link_address(device: str) -> str:
    """The MAC of a device."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        raw = ioctl(any_socket, 0x8927, device.encode().ljust(40, b"\0"))  # SIOCGIFHWADDR
    return raw[18:24].hex(":")
