# SPDX-License-Identifier: Apache-2.0
"""Two nodes with a pod each, and two clients outside, all routed by one router, in both families.

    client1 --+            +-- a -- pod-a
              +-- router --+
    client2 --+            +-- b -- pod-b

Every one is a network namespace without a name, forwarding ones check reverse paths strictly. Each
node has a bpffs and a state of its own. Sockets live in the namespace they were made in, whoever uses
them.
"""

import ctypes
import json
import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from policyc.runtime import node as runtime
from policyc.runtime.forwarding import Forwarding
from policyc.runtime.json_value import JsonValue
from policyc.runtime.masquerade import Masquerade
from policyc.runtime.service_update import update_services
from policyc.runtime.status import NodeStatus, status
from policyc.runtime.uplinks import Outside
from tests.kernel.conftest import own_network
from tests.kernel.node_under_test import ip
from tests.kernel.service_wire import GATEWAY4, GATEWAY6, _bad_checksums, _link_address, _offload
from tests.kernel_corpus.surroundings import own_bpffs

T = TypeVar("T")
NODES = ("a", "b")
SITES = ("a", "b", "client1", "client2")
PODS = {"pod-a": "a", "pod-b": "b"}
EXTERNAL = {4: "192.0.2.80", 6: "2001:db8:80::1"}
"""An external IP, which the router sends to node a."""
UPLINK = "up0"
PATIENCE = 1.0  # seconds until silence counts as a drop
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def address(name: str, family: int) -> str:
    """Of a node, client or pod."""
    if name in PODS:
        at = 1 + NODES.index(PODS[name])
        return f"10.10.{at}.10" if family == 4 else f"fd10:{at}::10"
    at = 1 + SITES.index(name)
    return f"198.51.{at}.2" if family == 4 else f"2001:db8:{at}::2"


def _gateway(site: str, family: int) -> str:
    return address(site, family)[:-1] + "1"


@dataclass(frozen=True)
class Namespace:
    """One end of the lab."""

    fd: int
    outside: int  # the test's own

    def within(self, step: Callable[[], T]) -> T:
        """Do something in there."""
        _libc.setns(self.fd, _CLONE_NEWNET)
        try:
            return step()
        finally:
            _libc.setns(self.outside, _CLONE_NEWNET)


class TwoNodes:
    """The lab; nothing is loaded yet."""

    def __init__(self, folder: Path, owned: ExitStack) -> None:
        self.folder = folder
        self._owned = owned
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        owned.callback(os.close, here)
        self.at = {name: self._namespace(here) for name in ("router", *SITES, *PODS)}
        for node in NODES:
            owned.enter_context(own_bpffs(folder / f"bpffs-{node}"))
        self.at["router"].within(_forward)
        for site in SITES:
            self._join(site)
        for pod, node in PODS.items():
            self._hang(pod, node)
        for family in (4, 6):
            size = 32 if family == 4 else 128
            self.route(EXTERNAL[family], size, "a", family)

    def _namespace(self, here: int) -> Namespace:
        with own_network() as inside:
            fd = os.dup(inside)
            ip("link", "set", "lo", "up")
        self._owned.callback(os.close, fd)
        return Namespace(fd, here)

    def _move(self, device: str, into: str) -> None:
        ip("link", "set", device, "netns", f"/proc/{os.getpid()}/fd/{self.at[into].fd}")

    def _join(self, site: str) -> None:
        """A link to the router, and all routes by it."""

        def here() -> None:
            if site in NODES:
                _forward()
            ip("link", "add", UPLINK, "type", "veth", "peer", "name", f"to-{site}")
            self._move(f"to-{site}", "router")
            _address(UPLINK, address(site, 4), 24, address(site, 6), 64)
            ip("route", "add", "default", "via", _gateway(site, 4))
            ip("-6", "route", "add", "default", "via", _gateway(site, 6))

        self.at[site].within(here)
        own = f"to-{site}", _gateway(site, 4), 24, _gateway(site, 6), 64
        self.at["router"].within(lambda: _address(*own))

    def route(self, prefix: str, size: int, node: str, family: int) -> None:
        """Tell the router by which node it reaches something."""
        via = address(node, family)
        self.at["router"].within(
            lambda: ip(f"-{family}", "route", "replace", f"{prefix}/{size}", "via", via)
        )

    def _hang(self, pod: str, node: str) -> None:
        """As most CNIs do it: a veth pair, a route, and a gateway that everybody knows."""
        mac, device = self.mac(pod), self.device(pod)
        addresses = ((address(pod, 4), 32), (address(pod, 6), 128))

        def on_node() -> str:
            ip("link", "add", device, "type", "veth", "peer", "name", "eth0")
            self._move("eth0", pod)
            ip("link", "set", device, "up")
            for each, size in addresses:
                ip("route", "add", f"{each}/{size}", "dev", device)
                ip("neigh", "add", each, "lladdr", mac, "dev", device, "nud", "permanent")
            return _link_address(device)

        gateway_mac = self.at[node].within(on_node)

        def in_pod() -> None:
            ip("link", "set", "eth0", "address", mac)
            _address("eth0", address(pod, 4), 32, address(pod, 6), 128)
            for each, family in ((GATEWAY4, 4), (GATEWAY6, 6)):
                ip("neigh", "add", each, "lladdr", gateway_mac, "dev", "eth0", "nud", "permanent")
                if family == 4:
                    ip("route", "add", f"{each}/32", "dev", "eth0")
                ip(f"-{family}", "route", "add", "default", "via", each, "dev", "eth0")

        self.at[pod].within(in_pod)
        for (each, size), family in zip(addresses, (4, 6), strict=True):
            self.route(each, size, node, family)

    @staticmethod
    def mac(pod: str) -> str:
        return f"02:00:00:00:00:0{pod[-1]}"

    @staticmethod
    def device(pod: str) -> str:
        return f"v-{pod}"

    def load(
        self,
        node: str,
        bundle: Path,
        services: Sequence[JsonValue] | None,
        way_back: Outside = "tunnel",
        families: Sequence[int] = (4, 6),
        masquerade: Masquerade | None = None,
        reassemble: bool = False,
        forward: Forwarding = "redirect",
    ) -> None:
        """Load a bundle on a node; `families` are those of the nodes' addresses."""
        path = self.folder / f"endpoints-{node}.json"
        path.write_text(json.dumps(self._endpoints(node, families)))
        self.at[node].within(
            lambda: (
                runtime.load(
                    bundle,
                    path,
                    bpffs=self.bpffs(node),
                    state_root=self.folder / "state",
                    services=services,
                    uplink=[UPLINK],
                    way_back=way_back,
                    masquerade=masquerade,
                    reassemble=reassemble,
                    forward=forward,
                )
                and None
            )
        )

    def _endpoints(self, node: str, families: Sequence[int]) -> dict[str, object]:
        pods = []
        for pod, where in PODS.items():
            own = {"interface": self.device(pod), "mac": self.mac(pod)} if where == node else {}
            pods.append(
                {"namespace": "shop", "name": pod, "labels": {"app": "web"}, "node": where,
                 "addresses": [address(pod, 4), address(pod, 6)]} | own
            )  # fmt: skip
        known = [
            {"name": each, "addresses": [address(each, family) for family in families]}
            for each in NODES
        ]
        return {"schema": "policyc.dev/endpoints/v1", "node": node, "endpoints": pods,
                "nodes": known}  # fmt: skip

    def serve(self, node: str, services: Sequence[JsonValue]) -> None:
        """Replace the Services of a loaded node."""
        where = {"bpffs": self.bpffs(node), "state_root": self.folder / "state"}
        self.at[node].within(lambda: update_services(services, **where) and None)

    def check_no_paths(self, name: str) -> None:
        """Let it take any packet from anywhere."""

        def there() -> None:
            for path in Path("/proc/sys/net/ipv4/conf").glob("*/rp_filter"):
                path.write_text("0")

        self.at[name].within(there)

    def unload(self, node: str) -> None:
        self.at[node].within(
            lambda: runtime.unload(bpffs=self.bpffs(node), state_root=self.folder / "state")
        )

    def bpffs(self, node: str) -> Path:
        return self.folder / f"bpffs-{node}" / "policyc"

    def status(self, node: str) -> NodeStatus:
        found = self.at[node].within(
            lambda: status(bpffs=self.bpffs(node), state_root=self.folder / "state")
        )
        assert found is not None
        return found

    def drops(self, but: str = "too big") -> dict[str, dict[str, int]]:
        """By node and reason, without one that is part of what goes well; only what there was."""
        found = {
            node: {why: n for why, n in self.status(node).drops.items() if why != but}
            for node in NODES
        }
        return {node: drops for node, drops in found.items() if drops}

    def open_socket(self, name: str, family: int, kind: int) -> socket.socket:
        af = socket.AF_INET if family == 4 else socket.AF_INET6
        made = self.at[name].within(lambda: socket.socket(af, kind))
        self._owned.enter_context(made)
        made.settimeout(PATIENCE)
        return made

    def server(self, name: str, family: int, kind: int, port: int) -> socket.socket:
        made = self.open_socket(name, family, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address(name, family), port))
        if kind == socket.SOCK_STREAM:
            made.listen()
        return made

    def accept(self, listener: socket.socket) -> socket.socket:
        """The next connection to a server."""
        made, _ = listener.accept()
        self._owned.enter_context(made)
        made.settimeout(PATIENCE)
        return made

    def connect(self, name: str, family: int, to: str, port: int) -> socket.socket | None:
        """A TCP connection; None where there was silence."""
        made = self.open_socket(name, family, socket.SOCK_STREAM)
        try:
            made.connect((to, port))
        except TimeoutError:
            return None
        return made

    def capture(self, name: str, device: str) -> socket.socket:
        """Every frame that the device sends or receives from now on."""
        made = self.at[name].within(
            lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        )
        self._owned.enter_context(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        made.bind((device, 3))
        made.setblocking(False)
        return made

    def offload(self, tx: bool, segments: bool) -> None:
        """Of every device whose stack could leave a checksum to it."""
        for name in (*SITES, *PODS):
            device = "eth0" if name in PODS else UPLINK
            self.at[name].within(lambda device=device: _offload(device, tx, segments))

    def bad_checksums(self) -> int:
        """What all stacks have found wrong so far."""
        return sum(each.within(_bad_checksums) for each in self.at.values())

    def routed(self, node: str, family: int) -> int:
        """How many packets the node's stack has forwarded so far."""
        return self.at[node].within(lambda: _routed(family))

    def run(self, name: str, *command: str, text: str = "") -> None:
        self.at[name].within(
            lambda: subprocess.run(command, input=text, text=True, check=True, capture_output=True)
        )


def _routed(family: int) -> int:
    if family == 6:
        counters = dict(line.split() for line in Path("/proc/net/snmp6").read_text().splitlines())
        return int(counters["Ip6OutForwDatagrams"])
    names, values = (line.split() for line in Path("/proc/net/snmp").read_text().splitlines()[:2])
    return int(values[names.index("ForwDatagrams")])


def _forward() -> None:
    for name, value in {
        "ipv4/ip_forward": "1",
        "ipv6/conf/all/forwarding": "1",
        "ipv4/conf/all/rp_filter": "1",
        "ipv4/conf/default/rp_filter": "1",
    }.items():
        Path(f"/proc/sys/net/{name}").write_text(value)


def _address(device: str, ip4: str, size4: int, ip6: str, size6: int) -> None:
    settings = Path(f"/proc/sys/net/ipv6/conf/{device}")
    (settings / "accept_dad").write_text("0")
    ip("link", "set", device, "up")
    ip("addr", "add", f"{ip4}/{size4}", "dev", device)
    ip("addr", "add", f"{ip6}/{size6}", "dev", device, "nodad")
