# SPDX-License-Identifier: Apache-2.0
"""A lab for hooks at sockets: a node, pods that serve, a cgroup of the test's own."""

import json
import os
import select
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import TypeVar

import pytest

from policyc.runtime.attach.bypass import Bypass
from policyc.runtime.attach.socket_hooks import SocketServices
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.lab.children import call, enter
from policyc.runtime.lab.topology import Lab, LabEndpoint, LabNode
from policyc.runtime.load.node import load, unload
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.observe.status import NodeStatus, status
from policyc.runtime.services.update import update_services
from tests.kernel.support.arrival import WAITS
from tests.kernel.support.bundles import compiled
from tests.kernel.support.packets import Host
from tests.kernel.support.service_yaml import PORT, TARGET, VIP, service, slices, value

PODS = {
    name: LabEndpoint("shop", name, IPv4Address(f"10.244.1.{n}"), IPv6Address(f"fd00:1::{n}"))
    for n, name in enumerate(("web", "cart", "client", "guarded"), 11)
}
SERVERS = PODS["web"], PODS["cart"]
CGROUPS = Path("/sys/fs/cgroup/unified")
NODE_PORT, OWN_PORT, UNUSED = 30080, 30081, 30082
ELSEWHERE = Host("", "10.250.9.9", "fd00:250::9")
"""The addresses of a node that does not exist."""
WAYS = ("IPv4", "IPv6", "mapped")
ways = pytest.mark.parametrize("way", WAYS)
KINDS = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}
kinds = pytest.mark.parametrize("kind", KINDS)
T = TypeVar("T")


def host_of(name: str) -> Host:
    return Host("02:00:00:00:00:00", str(PODS[name].ipv4), str(PODS[name].ipv6))


def address(way: str, host: Host) -> str:
    """As a socket of this way is told it."""
    return {"IPv4": host.ip4, "IPv6": host.ip6, "mapped": f"::ffff:{host.ip4}"}[way]


def made(way: str, kind: str) -> socket.socket:
    found = socket.socket(socket.AF_INET if way == "IPv4" else socket.AF_INET6, KINDS[kind])
    found.settimeout(WAITS)
    return found


def served(*pods: str, name: str = "web", vip: Host = VIP, **spec: object) -> list[JsonValue]:
    """A Service of TCP and UDP, with these pods behind it."""
    both = ("TCP", "UDP")
    ports = [
        {"name": each.lower(), "protocol": each, "port": PORT}
        | ({"nodePort": NODE_PORT} if spec.get("type") == "NodePort" else {})
        for each in both
    ]
    listed = [{"name": each.lower(), "protocol": each, "port": TARGET} for each in both]
    found = slices([host_of(pod) for pod in pods], name=name)
    return [
        service(name=name, vip=vip, ports=ports, **spec),
        *(value(each.raw | {"ports": listed}) for each in found),
    ]


@dataclass
class Echoes:
    """Servers in a namespace that send their name to each client, until `stop`."""

    namespace: Path
    name: str
    port: int = TARGET
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, ready: threading.Event) -> None:
        here = os.open(self.namespace, os.O_RDONLY)
        enter(here)
        os.close(here)
        with ExitStack() as held:
            listening = [held.enter_context(self._bound(kind)) for kind in KINDS.values()]
            ready.set()
            while not self.stop.is_set():
                for each in select.select(listening, (), (), 0.05)[0]:
                    if each.type == socket.SOCK_STREAM:
                        with each.accept()[0] as taken:
                            taken.sendall(self.name.encode())
                    else:
                        data, sender = each.recvfrom(100)
                        each.sendto(self.name.encode() + data, sender)

    def _bound(self, kind: int) -> socket.socket:
        made = socket.socket(socket.AF_INET6, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("::", self.port))
        if kind == socket.SOCK_STREAM:
            made.listen()
        return made


@dataclass
class Socketed:
    """A lab, a cgroup of the test's own, and the node loaded for it."""

    lab: Lab
    folder: Path
    cgroup: Path
    whose: SocketServices = "node"
    connect_deny: bool = False
    bundle: str = "bundle"
    bypass: Bypass | None = None
    _shared: Sequence[object] | None = None

    @property
    def node(self) -> LabNode:
        return self.lab.node

    @property
    def pins(self) -> Pins:
        return Pins(self.node.bpffs)

    @property
    def own(self) -> Host:
        return Host("", str(self.node.ipv4), str(self.node.ipv6))

    def load(self, services: Sequence[JsonValue] | None = None, cgroup: Path | None = None) -> None:
        """With the cgroup of the test, unless there is another one."""
        self.load_at(cgroup or self.cgroup, services)

    def share(self, services: Sequence[JsonValue] | None = None) -> None:
        """Load, unless the case before has: for cases that change nothing. `end_sharing` unloads."""
        wanted = [each.raw for each in services or ()]
        if self._shared != wanted:
            self.load(services)
            self._shared = wanted

    def end_sharing(self) -> None:
        """The node is as before the first load."""
        if self._shared is not None:
            self.unload()

    def load_at(self, cgroup: Path | None, services: Sequence[JsonValue] | None = None) -> None:
        self.end_sharing()
        folder, node, whose = self.folder, self.node, self.whose
        bundle, connect_deny = folder / self.bundle, self.connect_deny
        bypass = self.bypass

        def work() -> None:
            load(
                LoadRequest(
                    bundle=bundle,
                    endpoints=folder / "endpoints.json",
                    bpffs=node.bpffs,
                    state_root=folder / "state",
                    services=services,
                    cgroup=cgroup,
                    socket_services=whose if cgroup else "node",
                    connect_deny=connect_deny,
                    bypass=bypass,
                )
            )

        node.run_in(work)

    def services(self, given: Sequence[JsonValue]) -> None:
        self.warnings_of(given)

    def warnings_of(self, given: Sequence[JsonValue]) -> list[str]:
        """Replace the Services; what the change warned of."""
        folder, node = self.folder, self.node

        def work() -> list[str]:
            found: list[str] = []
            state = folder / "state"
            update_services(given, bpffs=node.bpffs, state_root=state, warn=found.append)
            return found

        return node.run_in(work)

    def process(self, work: Callable[[], T], inside: bool = True, end: str = "") -> T:
        """In a process of the node, or of another end; in the cgroup or not."""
        namespace = self.lab.ends[end].namespace if end else self.node.namespace

        def joined() -> T:
            if inside:
                (self.cgroup / "cgroup.procs").write_text("0")
            return work()

        return call(joined, namespace=namespace, timeout=60)

    def status(self) -> NodeStatus:
        found = self.node.run_in(
            lambda: status(bpffs=self.node.bpffs, state_root=self.folder / "state")
        )
        assert found is not None
        return found

    def unload(self) -> None:
        def work() -> None:
            unload(bpffs=self.node.bpffs, state_root=self.folder / "state")

        self.node.run_in(work)
        self._shared = None


@contextmanager
def socket_lab(
    folder: Path,
    policy: str,
    backend: str,
    pods: Sequence[LabEndpoint] = SERVERS,
    whose: SocketServices = "node",
    options: Sequence[str] = (),
) -> Iterator[Socketed]:
    """The lab with these pods; those of `SERVERS` answer at `TARGET`."""
    compiled(folder, policy, "--backend", backend, *options)
    with ExitStack() as owned:
        cgroup = Path(tempfile.mkdtemp(prefix="policyc-test-", dir=CGROUPS))
        owned.callback(cgroup.rmdir)
        built = owned.enter_context(Lab(tuple(pods)))
        records = {pod.key: {"labels": {"app": pod.name}} for pod in pods}
        document = built.node.endpoints_document(records)
        own = [str(built.node.ipv4), str(built.node.ipv6)]
        document["nodes"] = [
            {"name": built.node.name, "addresses": own},
            {"name": "elsewhere", "addresses": [ELSEWHERE.ip4, ELSEWHERE.ip6]},
        ]
        (folder / "endpoints.json").write_text(json.dumps(document))
        serving = [pod for pod in built.node.pods if pod.endpoint in SERVERS]
        for pod in serving:
            echoes, ready = Echoes(pod.namespace, pod.endpoint.name), threading.Event()
            thread = threading.Thread(target=echoes.run, args=(ready,))
            thread.start()
            owned.callback(thread.join)
            owned.callback(echoes.stop.set)
            assert ready.wait(WAITS)
        found = Socketed(built, folder, cgroup, whose)
        owned.callback(found.end_sharing)
        yield found


def ask(way: str, kind: str, host: Host, port: int = PORT) -> tuple[str, str, int]:
    """The server that answers a connected socket, and the peer address that the socket reports."""
    with made(way, kind) as each:
        each.connect((address(way, host), port))
        if kind == "UDP":
            each.send(b"")
        name = each.recv(100).decode()
        return name, *each.getpeername()[:2]


def is_translated(host: Host, way: str = "IPv4", port: int = PORT) -> bool:
    """Whether a datagram socket that is connected to the Service talks to an endpoint."""
    name = "udp" if way == "IPv4" else "udp6"
    with made(way, "UDP") as each:
        each.connect_ex((address(way, host), port))
        return f":{TARGET:04X} " in Path(f"/proc/self/net/{name}").read_text()


def refused(way: str, kind: str, host: Host) -> list[int | None]:
    """What connecting and, of datagrams, sending says."""
    found: list[int | None] = []
    with made(way, kind) as each:
        found.append(each.connect_ex((address(way, host), PORT)))
    if kind == "UDP":
        with made(way, kind) as each:
            try:
                each.sendto(b"", (address(way, host), PORT))
                found.append(0)
            except OSError as error:
                found.append(error.errno)
    return found
