# SPDX-License-Identifier: Apache-2.0
"""The node's two pods and one beyond its uplink, in namespaces, routed by the node in both families."""

import ctypes
import os
import socket
import struct
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from fcntl import ioctl
from pathlib import Path
from typing import TypeVar

from tests.kernel.support.arrival import WAITS, connects
from tests.kernel.support.node_under_test import (
    HOSTS,
    LOCAL,
    NODE,
    UPLINK,
    NodeUnderTest,
    ip,
)
from tests.kernel.support.service_yaml import VIP
from tests.kernel.support.wire import link_address
from tests.kernel_corpus.surroundings import own_network

DEVICES = LOCAL | {"c": UPLINK}
GATEWAY4, GATEWAY6 = "169.254.1.1", "fe80::1"
_CLONE_NEWNET = 0x40000000
_SIOCETHTOOL, _TX, _TSO, _GSO, _GRO = 0x8946, 0x17, 0x1F, 0x24, 0x2C
_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


class ServiceWire:
    """Sockets live in the namespace they were made in, whichever code uses them."""

    def __init__(self, node: NodeUnderTest, owned: ExitStack) -> None:
        self._owned = owned
        self._here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        owned.callback(os.close, self._here)
        for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            Path(f"/proc/sys/net/{name}").write_text("1")
        _enable_ipv6("lo")
        ip("addr", "add", f"{NODE.ip4}/32", "dev", "lo")
        ip("addr", "add", f"{NODE.ip6}/128", "dev", "lo")
        self._pods: dict[str, int] = {}
        for name, device in DEVICES.items():
            self.connect(name, device)

    def connect(self, name: str, device: str) -> None:
        """The peer of a veth becomes the device of a pod, in a namespace of its own."""
        with own_network() as inside:
            namespace = os.dup(inside)
        self._owned.callback(os.close, namespace)
        pod, peer = HOSTS[name], f"{device}.p"
        ip("link", "set", peer, "netns", f"/proc/{os.getpid()}/fd/{namespace}")
        _enable_ipv6(device)
        own = link_address(device)
        for address, size in ((pod.ip4, 32), (pod.ip6, 128)):
            ip("route", "add", f"{address}/{size}", "dev", device)
            ip("neigh", "add", address, "lladdr", pod.mac, "dev", device, "nud", "permanent")
        # The other end of a veth does not check an offloaded checksum.
        _offload(device, tx=False, segments=True)
        self._in(namespace, lambda: _configure(name, peer, own))
        self._pods[name] = namespace

    def within(self, pod: str | None, step: Callable[[], T]) -> T:
        """Do something in a pod's namespace; None is the node's."""
        return step() if pod is None else self._in(self._pods[pod], step)

    def _in(self, namespace: int, step: Callable[[], T]) -> T:
        _libc.setns(namespace, _CLONE_NEWNET)
        try:
            return step()
        finally:
            _libc.setns(self._here, _CLONE_NEWNET)

    def offload(self, pod: str, tx: bool, segments: bool) -> None:
        """What the pod's device does for its stack: checksums, and cutting large packets."""
        self.within(pod, lambda: _offload(f"{DEVICES[pod]}.p", tx, segments))

    def open_socket(self, pod: str | None, family: int, kind: int) -> socket.socket:
        af = socket.AF_INET if family == 4 else socket.AF_INET6
        made = self.within(pod, lambda: socket.socket(af, kind))
        self._owned.enter_context(made)
        made.settimeout(WAITS)
        return made

    def own(self, made: socket.socket) -> socket.socket:
        """Close it with the test."""
        return self._owned.enter_context(made)

    def server(self, pod: str | None, family: int, kind: int, port: int) -> socket.socket:
        """Bound to the pod's, or the node's, address."""
        made = self.open_socket(pod, family, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((HOSTS[pod or "node"].address(family), port))
        if kind == socket.SOCK_STREAM:
            made.listen()
        return made

    def client(
        self, family: int, kind: int, port: int, patience: float = WAITS
    ) -> socket.socket | None:
        """From pod a to the Service; None where there was silence."""
        made = self.open_socket("a", family, kind)
        return made if connects(made, (VIP.address(family), port), patience) else None

    def bad_checksums(self) -> int:
        """What the stacks of all ends have found wrong so far."""
        return sum(self.within(pod, _bad_checksums) for pod in (None, *DEVICES))


def _bad_checksums() -> int:
    found = 0
    lines = Path("/proc/net/snmp").read_text().splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        pairs = zip(names.split()[1:], values.split()[1:], strict=True)
        found += sum(int(value) for name, value in pairs if name == "InCsumErrors")
    for line in Path("/proc/net/snmp6").read_text().splitlines():
        name, value = line.split()
        found += int(value) if name.endswith("InCsumErrors") else 0
    return found


def _enable_ipv6(device: str) -> None:
    settings = Path(f"/proc/sys/net/ipv6/conf/{device}")
    (settings / "accept_dad").write_text("0")
    (settings / "disable_ipv6").write_text("0")


def _configure(name: str, device: str, gateway_mac: str) -> None:
    pod = HOSTS[name]
    ip("link", "set", "lo", "up")
    _enable_ipv6(device)
    ip("link", "set", device, "address", pod.mac, "up")
    ip("addr", "add", f"{pod.ip4}/32", "dev", device)
    ip("addr", "add", f"{pod.ip6}/128", "dev", device, "nodad")
    ip("route", "add", f"{GATEWAY4}/32", "dev", device)
    for gateway in (GATEWAY4, GATEWAY6):
        ip("neigh", "add", gateway, "lladdr", gateway_mac, "dev", device, "nud", "permanent")
    ip("route", "add", "default", "via", GATEWAY4, "dev", device)
    ip("-6", "route", "add", "default", "via", GATEWAY6, "dev", device)


def _offload(device: str, tx: bool, segments: bool) -> None:
    _set_features(device, ((_TX, tx), (_GSO, segments), (_TSO, segments and tx)))


def merge_segments(device: str) -> None:
    """Of what the device receives (GRO)."""
    _set_features(device, ((_GRO, True),))


def _set_features(device: str, features: Iterable[tuple[int, bool]]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command, is_on in features:
            value = ctypes.create_string_buffer(struct.pack("=II", command, is_on))
            request = struct.pack("16sQ16x", device.encode(), ctypes.addressof(value))
            ioctl(any_socket, _SIOCETHTOOL, request)
