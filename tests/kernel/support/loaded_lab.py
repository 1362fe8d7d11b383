# SPDX-License-Identifier: Apache-2.0
"""A lab with pods, the node and an external host, and what is loaded on its node.

The sockets of all ends are made in this process, each in the network namespace of its end.
"""

import errno
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from policyc.runtime.attach.attach import Mode
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.endpoints.local_devices import Missing
from policyc.runtime.kernel import namespaces
from policyc.runtime.lab.topology import Lab
from policyc.runtime.load.node import load, unload
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.observe.status import NodeStatus, status
from policyc.runtime.snat.snat import Masquerade

T = TypeVar("T")

PORT = 8080
FAMILIES = (4, 6)
PATIENCE, SILENCE = 5.0, 1.0  # seconds
_KINDS = {4: socket.AF_INET, 6: socket.AF_INET6}


@dataclass
class LoadedLab:
    """The lab, and what is loaded on its node."""

    lab: Lab
    folder: Path
    labels: Mapping[str, str]
    """Of each pod in the namespace shop, the label `app`."""
    notes: list[str] = field(default_factory=list)
    left_out: frozenset[str] = frozenset()
    """Pods without an entry in the endpoints file."""

    @property
    def endpoints(self) -> Path:
        return self.folder / "endpoints.json"

    @property
    def _metadata(self) -> Mapping[str, Mapping[str, object]]:
        return {
            self.key(name): {"labels": {"app": label}, "namespaceLabels": {}}
            for name, label in self.labels.items()
        }

    def key(self, name: str) -> str:
        """The name of an end in the lab."""
        return f"shop/{name}" if name in self.labels else name

    def write_endpoints(self, change: Callable[[dict[str, object]], None] | None = None) -> None:
        """The endpoints file; `change` gets each record."""
        document = self.lab.node.endpoints_document(self._metadata)
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
        with self.lab.ends[self.key(name)].namespace.open("rb") as namespace:
            return namespaces.run_in(namespace.fileno(), work)

    def address(self, name: str, family: int) -> str:
        """Of a pod, the node, or the external host."""
        found = self.lab.ends[self.key(name)].address(family)
        assert found is not None
        return str(found)

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
