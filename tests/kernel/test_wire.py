# SPDX-License-Identifier: Apache-2.0
"""Real TCP through the node: what a test run cannot show, as that a packet was generated here."""

import ctypes
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.kernel.conftest import own_network
from tests.kernel.node_under_test import HOSTS, LOCAL, NODE, NodeUnderTest, ip
from tests.kernel.table_policy import ANY, tcp_port

pytestmark = pytest.mark.kernel
GATEWAY = "169.254.1.1"
PATIENCE = (
    0.4  # seconds until silence counts as a drop; a connection here takes well below a millisecond
)
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
        ip("link", "set", inside, "netns", f"/proc/{os.getpid()}/fd/{self._pods[name]}")
        ip("route", "add", f"{pod.ip4}/32", "dev", device)
        ip("neigh", "add", pod.ip4, "lladdr", pod.mac, "dev", device, "nud", "permanent")

        own = _link_address(device)
        self.within(name, lambda: self._configure(pod.ip4, pod.mac, inside, own))

    @staticmethod
    def _configure(address: str, mac: str, device: str, gateway_mac: str) -> None:
        ip("link", "set", "lo", "up")
        ip("link", "set", device, "address", mac, "up")
        ip("addr", "add", f"{address}/32", "dev", device)
        ip("route", "add", f"{GATEWAY}/32", "dev", device)
        ip("route", "add", "default", "via", GATEWAY, "dev", device)
        ip("neigh", "add", GATEWAY, "lladdr", gateway_mac, "dev", device, "nud", "permanent")

    def within(self, pod: str | None, step: Callable[[], object]) -> object:
        """Do something in a pod's namespace; None is the node's."""
        if pod is None:
            return step()
        _libc.setns(self._pods[pod], _CLONE_NEWNET)
        try:
            return step()
        finally:
            _libc.setns(self._here, _CLONE_NEWNET)

    def tcp_socket(self, pod: str | None) -> socket.socket:
        """A TCP socket that lives in the pod, whoever uses it."""
        made = self.within(pod, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        assert isinstance(made, socket.socket)
        self._owned.enter_context(made)
        made.settimeout(PATIENCE)
        return made

    def listen(self, pod: str | None, port: int) -> socket.socket:
        server = self.tcp_socket(pod)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("0.0.0.0", port))
        server.listen()
        return server

    def connect(self, pod: str | None, address: str, port: int) -> socket.socket | None:
        """A connection, or None where there was silence; a refusal would be an error."""
        client = self.tcp_socket(pod)
        try:
            client.connect((address, port))
        except TimeoutError:
            return None
        return client


def _link_address(device: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        raw = ioctl(any_socket, 0x8927, device.encode().ljust(40, b"\0"))  # SIOCGIFHWADDR
    return raw[18:24].hex(":")


@pytest.fixture
def wire(node: NodeUnderTest) -> Iterator[Wire]:
    with ExitStack() as owned:
        yield Wire(node, owned)


@pytest.mark.parametrize("mode", ["tcx", "clsact"])
def test_pods_reach_each_other_as_far_as_the_policy_goes(
    node: NodeUnderTest, wire: Wire, mode: str
) -> None:
    for port in (80, 81):
        wire.listen("b", port)
        wire.listen("a", port)
    assert wire.connect("a", HOSTS["b"].ip4, 81)
    node.load(node.policy().allow("a", "b", tcp_port(80)), mode=mode)  # type: ignore[arg-type]
    assert wire.connect("a", HOSTS["b"].ip4, 80)
    assert not wire.connect("a", HOSTS["b"].ip4, 81)
    assert not wire.connect("b", HOSTS["a"].ip4, 80)
    assert set(node.drops()) == {"policy"}
    assert node.unload()
    assert wire.connect("b", HOSTS["a"].ip4, 80)


def test_the_node_reaches_isolated_pods_which_do_not_reach_it(
    node: NodeUnderTest, wire: Wire
) -> None:
    wire.listen("a", 8080)
    wire.listen(None, 22)
    node.load(node.policy())
    assert wire.connect(None, HOSTS["a"].ip4, 8080)
    assert not wire.connect("a", NODE.ip4, 22)
    node.load(node.policy().allow_egress("a", "world", tcp_port(22)))
    assert wire.connect("a", NODE.ip4, 22)


def test_an_open_connection_follows_the_policy(node: NodeUnderTest, wire: Wire) -> None:
    server = wire.listen("b", 80)
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    client = wire.connect("a", HOSTS["b"].ip4, 80)
    assert client
    accepted, _ = server.accept()
    with accepted:
        accepted.settimeout(PATIENCE)
        node.load(node.policy().allow("a", "b", ANY))
        accepted.sendall(b"the first packet after the change is a reply")
        assert client.recv(100).startswith(b"the first")
        node.load(node.policy())
        client.sendall(b"denied by now")
        with pytest.raises(TimeoutError):
            accepted.recv(100)
        assert node.connections() == []
