# SPDX-License-Identifier: Apache-2.0
"""Pods on ipvlan slaves of one parent, the node with a slave of its own, and an external host.

    server   NetworkPolicy: TCP and UDP to port 8080 from `cart`, and from the external host
    cart     no policy
    other    NetworkPolicy: only UDP to port 9999 may leave
    guard    ExtendedPolicy of support/rejecting.py

The sockets of all ends are made in this process, each in the network namespace of its end.
"""

import errno
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import TypeVar

import pytest

from policyc.runtime.attach.attach import Mode
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.endpoints.local_devices import Missing
from policyc.runtime.kernel import namespaces
from policyc.runtime.lab.topology import EXTERNAL, Lab, LabEndpoint
from policyc.runtime.load.node import load, unload
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.observe.status import NodeStatus, status
from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support import rejecting
from tests.kernel.support.bundles import compiled
from tests.kernel.support.packets import Host

T = TypeVar("T")

POLICIES = f"""\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: server, namespace: shop}}
spec:
  podSelector: {{matchLabels: {{app: server}}}}
  policyTypes: [Ingress]
  ingress:
  - from:
    - podSelector: {{matchLabels: {{app: cart}}}}
    - ipBlock: {{cidr: 198.51.100.0/24}}
    - ipBlock: {{cidr: 2001:db8:51::/64}}
    ports:
    - {{protocol: TCP, port: 8080}}
    - {{protocol: UDP, port: 8080}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: other, namespace: shop}}
spec:
  podSelector: {{matchLabels: {{app: other}}}}
  policyTypes: [Egress]
  egress:
  - ports:
    - {{protocol: UDP, port: 9999}}
---
{rejecting.POLICY}
"""
CLOSED = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: nothing, namespace: shop}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
"""
IN_GUEST = os.environ.get("POLICYC_TEST_IPVLAN", "")
"""The folder of the bundles, where the kernel has ipvlan (`make guest-ipvlan`)."""
LABELS = {"server": "server", "cart": "cart", "other": "other", "guard": "web"}
PODS = {
    name: LabEndpoint("shop", name, IPv4Address(f"10.244.1.{n}"), IPv6Address(f"fd00:1::{n}"))
    for n, name in enumerate(LABELS, 11)
}
PORT = 8080
FAMILIES = (4, 6)
families = pytest.mark.parametrize("family", FAMILIES)
PATIENCE, SILENCE = 5.0, 1.0  # seconds
_KINDS = {4: socket.AF_INET, 6: socket.AF_INET6}
_METADATA: Mapping[str, Mapping[str, object]] = {
    f"shop/{name}": {"labels": {"app": label}, "namespaceLabels": {}}
    for name, label in LABELS.items()
}


def bundle(folder: Path, policies: str, name: str) -> Path:
    """In a guest compiled beforehand, as that takes minutes there."""
    return (
        Path(IN_GUEST) / name
        if IN_GUEST
        else compiled(folder, policies, "--backend", "llvm", name=name)
    )


def make_bundles(folder: Path) -> None:
    """What the tests load in a guest."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, policies in {"open": POLICIES, "closed": CLOSED}.items():
        compiled(folder, policies, name=name)


@dataclass
class Slaves:
    """The lab, and what is loaded on its node."""

    lab: Lab
    folder: Path
    notes: list[str] = field(default_factory=list)
    left_out: frozenset[str] = frozenset()
    """Pods without an entry in the endpoints file."""

    @property
    def endpoints(self) -> Path:
        return self.folder / "endpoints.json"

    def write_endpoints(self, change: Callable[[dict[str, object]], None] | None = None) -> None:
        """The endpoints file; `change` gets each record."""
        document = self.lab.node.endpoints_document(_METADATA)
        records = document["endpoints"]
        assert isinstance(records, list)
        for record in records if change else ():
            assert change
            change(record)
        document["endpoints"] = [each for each in records if each["name"] not in self.left_out]
        own = [self.address("node-1", family) for family in FAMILIES]
        document["nodes"] = [{"name": "node-1", "addresses": own}]
        self.endpoints.write_text(json.dumps(document))

    def load(
        self,
        policies: Path,
        services: Sequence[JsonValue] | None = None,
        masquerade: Masquerade | None = None,
        missing: Missing = "refuse",
        mode: Mode = "auto",
    ) -> None:
        """Load, in the node's network namespace."""
        request = LoadRequest(
            bundle=policies,
            endpoints=self.endpoints,
            bpffs=self.lab.node.bpffs,
            state_root=self.folder / "state",
            uplinks=(self.lab.node.uplink,),
            services=services,
            masquerade=masquerade,
            missing=missing,
            mode=mode,
        )
        self.on_node(lambda: load(request, warn=_hear(self.notes), note=_hear(self.notes)))

    def unload(self) -> None:
        """Take all away."""
        node = self.lab.node
        self.on_node(lambda: unload(bpffs=node.bpffs, state_root=self.folder / "state"))

    def status(self) -> NodeStatus:
        """Of the node; something is loaded."""
        node = self.lab.node
        found = self.on_node(lambda: status(bpffs=node.bpffs, state_root=self.folder / "state"))
        assert found is not None
        return found

    def drops(self, reason: str) -> int:
        """How many packets were dropped for that reason so far."""
        return self.status().drops.get(reason, 0)

    def on_node(self, work: Callable[[], T]) -> T:
        """Do the work in the node's network namespace."""
        return self.within("node-1", work)

    def within(self, name: str, work: Callable[[], T]) -> T:
        """Do the work in the network namespace of an end."""
        with _path(self.lab, name).open("rb") as namespace:
            return namespaces.run_in(namespace.fileno(), work)

    def address(self, name: str, family: int) -> str:
        """Of a pod, the node, or the external host."""
        found = self.lab.ends[_key(name)].address(family)
        assert found is not None
        return str(found)

    def host(self, name: str) -> Host:
        """An end for frames; slaves and the node have the parent's MAC address."""
        mac = "02:00:00:03:00:01" if name == EXTERNAL.name else self.lab.node.pods[0].mac
        return Host(mac, self.address(name, 4), self.address(name, 6))

    @contextmanager
    def socket(self, name: str, kind: int, family: int, port: int = 0) -> Iterator[socket.socket]:
        """A socket of that end, bound to its address."""
        with self.within(name, lambda: socket.socket(_KINDS[family], kind)) as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((self.address(name, family), port))
            made.settimeout(PATIENCE)
            yield made

    def asks(
        self,
        source: str,
        target: str,
        family: int,
        port: int = PORT,
        *,
        at: tuple[str, int] | None = None,
        patience: float = PATIENCE,
    ) -> bool:
        """Whether a datagram to the target, or to the Service `at`, is answered in time."""
        with (
            self.socket(target, socket.SOCK_DGRAM, family, port) as server,
            self.socket(source, socket.SOCK_DGRAM, family) as client,
        ):
            client.connect(at or (self.address(target, family), port))
            for each in (server, client):
                each.settimeout(patience)
            try:
                client.send(b"question")
                data, peer = server.recvfrom(100)
                server.sendto(data[::-1], peer)
                return client.recv(100) == b"question"[::-1]
            except TimeoutError:
                return False
            except OSError as error:
                if error.errno in (errno.ENOBUFS, errno.ECONNREFUSED):
                    return False
                raise

    def connects(
        self,
        source: str,
        target: str,
        family: int,
        port: int = PORT,
        *,
        at: tuple[str, int] | None = None,
        size: int = 1,
        patience: float = PATIENCE,
    ) -> str:
        """By TCP: "open" where bytes go both ways, "refused", or "silent"."""
        with (
            self.socket(target, socket.SOCK_STREAM, family, port) as server,
            self.socket(source, socket.SOCK_STREAM, family) as client,
        ):
            server.listen()
            client.settimeout(patience)
            try:
                client.connect(at or (self.address(target, family), port))
            except TimeoutError:
                return "silent"
            except (ConnectionRefusedError, PermissionError):
                return "refused"
            peer, _ = server.accept()
            with peer:
                _exchange(client, peer, size)
            return "open"


def _exchange(client: socket.socket, peer: socket.socket, size: int) -> None:
    """So many bytes to the server, and one back."""
    for each in (client, peer):
        each.settimeout(PATIENCE)
    data, got = bytes(range(251)) * (size // 251 + 1), 0
    sent = 0
    client.setblocking(False)
    end = time.monotonic() + 6 * PATIENCE
    while got < size:
        assert time.monotonic() < end
        if sent < size:
            with suppress(BlockingIOError):
                sent += client.send(data[sent : min(size, sent + (1 << 16))])
        part = peer.recv(1 << 16)
        assert part == data[got : got + len(part)]
        got += len(part)
    client.settimeout(PATIENCE)
    peer.sendall(b"!")
    assert client.recv(1) == b"!"


def _hear(notes: list[str]) -> Callable[[str], object]:
    return notes.append


def _key(name: str) -> str:
    return f"shop/{name}" if name in PODS else name


def _path(lab: Lab, name: str) -> Path:
    return lab.ends[_key(name)].namespace


@contextmanager
def slaves(folder: Path) -> Iterator[Slaves]:
    """The lab; nothing is loaded."""
    with Lab(list(PODS.values()), pair="ipvlan") as lab:
        made = Slaves(lab, folder)
        made.write_endpoints()
        yield made
