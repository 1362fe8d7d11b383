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
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from policyc.runtime.attach import xdp
from policyc.runtime.attach.attach import Mode
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.devices.uplinks import Outside
from policyc.runtime.endpoints.forwarding import Forwarding
from policyc.runtime.load import node as runtime
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.observe.status import (
    NodeStatus,
    status,
)
from policyc.runtime.services.update import update_services
from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support.arrival import WAITS, accepted, connects
from tests.kernel.support.network import (
    Network,
    network,
)
from tests.kernel.support.service_wire import (
    GATEWAY4,
    GATEWAY6,
    _bad_checksums,
    _offload,
)
from tests.kernel_corpus.surroundings import own_bpffs, own_network

T = TypeVar("T")
NODES = ("a", "b")
SITES = ("a", "b", "client1", "client2")
PODS = {"pod-a": "a", "pod-b": "b"}
BESIDE = {"pod-c": "a"}
"""Beside pod-a; only labs that say so have it."""
EXTERNAL = {4: "192.0.2.80", 6: "2001:db8:80::1"}
"""An external IP, which the router sends to node a."""
UPLINK = "up0"
OVERLAY = "cni0"
"""The CNI's own tunnel, where there is one."""
_CLONE_NEWNET = 0x40000000
_SO_RCVBUFFORCE = 33  # of <asm-generic/socket.h>: above net.core.rmem_max, too
_libc = ctypes.CDLL(None, use_errno=True)


def address(name: str, family: int) -> str:
    """Of a node, client or pod."""
    node = (PODS | BESIDE).get(name)
    if node:
        at, host = 1 + NODES.index(node), 10 + (name in BESIDE)
        return f"10.10.{at}.{host}" if family == 4 else f"fd10:{at}::{host}"
    at = 1 + SITES.index(name)
    return f"198.51.{at}.2" if family == 4 else f"2001:db8:{at}::2"


def gateway_of(site: str, family: int) -> str:
    return address(site, family)[:-1] + "1"


def blocks(name: str) -> tuple[str, ...]:
    """The peers of a NetworkPolicy that are one of these, in both families."""
    return tuple(
        f"ipBlock: {{cidr: {address(name, family)}/{32 if family == 4 else 128}}}"
        for family in (4, 6)
    )


CLIENT1 = blocks("client1")


@dataclass(frozen=True)
class Namespace:
    """One end of the lab."""

    fd: int
    outside: int  # the test's own
    network: Network

    def within(self, step: Callable[[], T]) -> T:
        """Do something in there."""
        _libc.setns(self.fd, _CLONE_NEWNET)
        try:
            return step()
        finally:
            _libc.setns(self.outside, _CLONE_NEWNET)

    def set_up(self, device: str, *prefixes: str) -> None:
        """Start the device, with these addresses."""
        self.without_dad(device)
        self.network.up(device)
        for prefix in prefixes:
            self.network.add_address(device, prefix)

    def without_dad(self, device: str) -> None:
        """Its addresses are in use at once."""
        path = Path(f"/proc/sys/net/ipv6/conf/{device}/accept_dad")
        self.within(lambda: path.write_text("0"))


class TwoNodes:
    """The lab; nothing is loaded yet."""

    pods: Mapping[str, str] = PODS
    uplinks: Sequence[str] = (UPLINK,)
    families: Sequence[int] = (4, 6)
    """Those that pods have addresses of."""

    def __init__(self, folder: Path, owned: ExitStack) -> None:
        self.folder = folder
        self.loaded: set[str] = set()
        self.notes: list[str] = []
        """What loads have told."""
        self._owned = owned
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        owned.callback(os.close, here)
        self.at = {name: self._namespace(here) for name in ("router", *SITES, *self.pods)}
        for node in NODES:
            owned.enter_context(own_bpffs(folder / f"bpffs-{node}"))
        self.at["router"].within(forward_packets)
        for site in SITES:
            self._join(site)
        for pod, node in self.pods.items():
            self._hang(pod, node)
        for family in (4, 6):
            size = 32 if family == 4 else 128
            self.route(EXTERNAL[family], size, "a", family)

    def _namespace(self, here: int) -> Namespace:
        with own_network() as inside:
            fd = os.dup(inside)
            self._owned.callback(os.close, fd)
            made = Namespace(fd, here, self._owned.enter_context(network()))
        made.network.up("lo")
        return made

    def _join(self, site: str) -> None:
        """A link to the router, and all routes by it."""
        own, router = self.at[site], self.at["router"]
        if site in NODES:
            own.within(forward_packets)
        own.network.add_veth(UPLINK, f"to-{site}", router.fd)
        own.set_up(UPLINK, *prefixes(address(site, 4), address(site, 6)))
        router.set_up(f"to-{site}", *prefixes(gateway_of(site, 4), gateway_of(site, 6)))
        for family in (4, 6):
            own.network.default_route(gateway_of(site, family))

    def route(self, prefix: str, size: int, node: str, family: int, at: str | None = None) -> None:
        """Tell the router by which node it reaches something, or by which address of it."""
        via = at or address(node, family)
        self.at["router"].network.route(f"{prefix}/{size}", via=via, command="replace")

    def _hang(self, pod: str, node: str) -> None:
        """As most CNIs do it: a veth pair, a route, and a gateway that everybody knows."""
        self._plug_in(pod, self.at[node])
        self._configure(pod, self.at[node].network.mac(self.device(pod)))
        self._lead_to(pod, node)

    def _lead_to(self, pod: str, node: str) -> None:
        """The router's part."""
        for each, size in self._own(pod):
            family = 4 if size == 32 else 6
            self.route(each, size, node, family, self._via(node, family))

    def _via(self, node: str, family: int) -> str:
        """At which address of the node its pods are."""
        return address(node, family)

    def _plug_in(self, pod: str, node: Namespace) -> None:
        """The node's part."""
        device = self.device(pod)
        node.within(lambda: node.network.add_pod_pair(device, "eth0", self.at[pod].fd))
        node.network.up(device)
        for each, size in self._own(pod):
            node.network.route(f"{each}/{size}", device=device)
            node.network.neighbour(each, self.mac(pod), device)

    def _configure(self, pod: str, gateway_mac: str, device: str = "eth0") -> None:
        """The pod's part."""
        own = self.at[pod].network
        own.change(device, address=self.mac(pod))
        self.at[pod].set_up(device)
        for each, size in self._own(pod):
            gateway = GATEWAY4 if size == 32 else GATEWAY6
            own.add_address(device, f"{each}/{size}")
            own.neighbour(gateway, gateway_mac, device)
            if size == 32:
                own.route(f"{gateway}/32", device=device)
            own.default_route(gateway, device=device)

    def _own(self, pod: str) -> list[tuple[str, int]]:
        """Its addresses, and how long they are."""
        return [(address(pod, family), 32 if family == 4 else 128) for family in self.families]

    def tunnel_pods(self) -> None:
        """As CNIs that tunnel do it: nodes reach each other's pods by VXLAN, and the router none."""
        for node in NODES:
            _overlay(self.at[node], node)
        for pod in PODS:
            for each, size in self._own(pod):
                self.at["router"].network.forget_route(f"{each}/{size}")
            self.at[pod].network.change("eth0", mtu=1450)

    @staticmethod
    def mac(pod: str) -> str:
        return f"02:00:00:00:00:0{pod[-1]}"

    @staticmethod
    def device(pod: str) -> str:
        return f"v-{pod}"

    @staticmethod
    def labels(pod: str) -> dict[str, str]:
        return {"app": "db" if pod in BESIDE else "web"}

    def load(
        self,
        node: str,
        bundle: Path,
        services: Sequence[JsonValue] | None,
        return_path: Outside = "tunnel",
        families: Sequence[int] = (4, 6),
        masquerade: Masquerade | None = None,
        reassemble: bool = False,
        forward: Forwarding = "redirect",
        mode: Mode = "auto",
        xdp_mode: xdp.Mode | None = None,
        service_cidr: Sequence[str] = (),
        resets: bool = False,
    ) -> None:
        """Load a bundle on a node; `families` are those of the nodes' addresses."""
        self.loaded.add(node)
        path = self.folder / f"endpoints-{node}.json"
        path.write_text(json.dumps(self._endpoints(node, families)))
        self.at[node].within(
            lambda: (
                runtime.load(
                    LoadRequest(
                        bundle=bundle,
                        endpoints=path,
                        bpffs=self.bpffs(node),
                        state_root=self.folder / "state",
                        services=services,
                        uplinks=self.uplinks,
                        outside=return_path,
                        masquerade=masquerade,
                        xdp_mode=xdp_mode,
                        reassemble=reassemble,
                        forwarding=forward,
                        mode=mode,
                        service_cidrs=service_cidr,
                        resets=resets,
                    ),
                    note=self.notes.append,
                )
                and None
            )
        )

    def _endpoints(self, node: str, families: Sequence[int]) -> dict[str, object]:
        pods = []
        for pod, where in self.pods.items():
            own = {"interface": self.device(pod), "mac": self.mac(pod)} if where == node else {}
            pods.append(
                {"namespace": "shop", "name": pod, "labels": self.labels(pod), "node": where,
                 "addresses": [each for each, _ in self._own(pod)]} | own
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
        made.settimeout(WAITS)
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
        made = self._owned.enter_context(accepted(listener))
        made.settimeout(WAITS)
        return made

    def connect(
        self, name: str, family: int, to: str, port: int, patience: float = WAITS
    ) -> socket.socket | None:
        """A TCP connection; None where there was silence."""
        made = self.open_socket(name, family, socket.SOCK_STREAM)
        return made if connects(made, (to, port), patience) else None

    def capture(self, name: str, device: str) -> socket.socket:
        """Every frame that the device sends or receives from now on."""
        made = self.at[name].within(
            lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        )
        self._owned.enter_context(made)
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 22)
        made.bind((device, 3))
        made.setblocking(False)
        return made

    def offload(self, tx: bool, segments: bool) -> None:
        """Of every device whose stack could leave a checksum to it."""
        for name in (*SITES, *self.pods):
            device = "eth0" if name in self.pods else UPLINK
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


def _overlay(at: Namespace, node: str) -> None:
    """The routes of one node to the pods of the other."""
    (other,) = set(NODES) - {node}
    at.network.add(
        OVERLAY,
        "vxlan",
        address=_overlay_mac(node),
        vxlan_id=7,
        vxlan_port=4789,
        vxlan_link=at.network.index(UPLINK),
        vxlan_local=address(node, 4),
        vxlan_group=address(other, 4),
    )
    at.set_up(OVERLAY, f"{overlay_address(node, 4)}/32", f"{overlay_address(node, 6)}/128")
    for family, size in ((4, 24), (6, 64)):
        at.network.route(f"{overlay_address(other, family)}/{size}", device=OVERLAY)
    for pod in (name for name, where in PODS.items() if where == other):
        for each in (address(pod, 4), address(pod, 6)):
            at.network.neighbour(each, _overlay_mac(other), OVERLAY)


def overlay_address(node: str, family: int) -> str:
    """By which its errors go to pods of the other node."""
    at = 1 + NODES.index(node)
    return f"10.10.{at}.0" if family == 4 else f"fd10:{at}::"


def _overlay_mac(node: str) -> str:
    return f"02:00:00:00:07:0{node}"


def _routed(family: int) -> int:
    if family == 6:
        counters = dict(line.split() for line in Path("/proc/net/snmp6").read_text().splitlines())
        return int(counters["Ip6OutForwDatagrams"])
    names, values = (line.split() for line in Path("/proc/net/snmp").read_text().splitlines()[:2])
    return int(values[names.index("ForwDatagrams")])


def forward_packets() -> None:
    for name, value in {
        "ipv4/ip_forward": "1",
        "ipv6/conf/all/forwarding": "1",
        "ipv4/conf/all/rp_filter": "1",
        "ipv4/conf/default/rp_filter": "1",
    }.items():
        Path(f"/proc/sys/net/{name}").write_text(value)


def prefixes(ip4: str, ip6: str) -> tuple[str, str]:
    """A link's addresses, with their lengths."""
    return f"{ip4}/24", f"{ip6}/64"
