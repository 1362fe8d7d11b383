# SPDX-License-Identifier: Apache-2.0
"""The state of a node that the kernel does not keep between commands: one JSON file per generation.

The next generation's file is written before the switch, and the kernel's epoch says which file applies.
So a loader that dies leaves no file that contradicts the kernel.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

from policyc.runtime import command_lock
from policyc.runtime.command_lock import CommandLock, Patience
from policyc.runtime.errors import HostError
from policyc.runtime.failsafes import Failsafes

DEFAULT_ROOT = Path("/run/policyc")
SCHEMA = "policyc.dev/node-state/v7"

Warn = Callable[[str], object]


def unheard(_message: str) -> None:
    """Discards warnings."""


class RecordError(HostError):
    """A file is damaged, or of another release. Load and unload continue without it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"the record {path} cannot be used: {why}",
            "load again, or unload; the current policy stays in force",
        )


@dataclass(frozen=True, slots=True)
class LoadedEndpoint:
    """A pod or a node in the maps. ifindex 0: not a pod of this node, or its device is gone."""

    id: int
    namespace: str
    name: str
    addresses: tuple[str, ...]
    interface: str
    ifindex: int
    mac: str
    place: dict[str, int]  # field of its class -> id
    is_node: bool = False
    has_peer: bool = False  # packets of other pods of this node may be redirected to it
    is_host: bool = False  # this node itself, under host policy
    netns: int | None = None  # the node's id for its network namespace; None: not known
    may_bypass: bool = True  # its TCP data may bypass the stack

    @property
    def title(self) -> str:
        """`namespace/name`, or `node NAME`."""
        return f"node {self.name}" if self.is_node else f"{self.namespace}/{self.name}"

    @property
    def is_missing(self) -> bool:
        """Whether it is a pod of this node whose device was gone at the load."""
        return bool(self.interface) and not self.ifindex

    @property
    def identity(self) -> tuple[str, str, tuple[str, ...]]:
        """The key under which it keeps its id from one load to the next."""
        return self.namespace, self.name, self.addresses


@dataclass(frozen=True, slots=True)
class LoadedHost:
    """The node as a subject: its host endpoint (or itself) by name, and the open ports."""

    name: str
    failsafes: Failsafes


@dataclass(frozen=True, slots=True)
class Attachment:
    """Both hooks at one device, attached by "tcx" or "clsact"."""

    interface: str
    ifindex: int
    kind: str
    role: str = "pod"  # a key of attach.BY_ROLE, which gives the hooks
    by_pattern: bool = False  # denied by --deny-devices under that name, and never a pod's


@dataclass(frozen=True, slots=True)
class LoadedMasquerade:
    """The SNAT of pods. Ports are inclusive; `addresses` are the node's, by uplink."""

    first_port: int
    last_port: int
    excepted: tuple[str, ...]
    addresses: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Generation:
    """A loaded generation, and its source."""

    epoch: int
    slot: int
    bundle: str
    bundle_digest: str
    hooks_digest: str
    node: str
    node_addresses: tuple[str, ...]
    node_zone: str  # in hints of endpoints; "": none
    nodes: dict[str, int]  # the cluster's, numbered by runtime/load/cluster_nodes.py
    endpoints: tuple[LoadedEndpoint, ...]
    attachments: tuple[Attachment, ...]
    former: tuple[Attachment, ...]  # of earlier loads; leftovers.py selects those that stay
    rules: tuple[dict[str, Any], ...]
    drop_reasons: dict[str, int]
    forwarding: str  # "redirect" or "stack"
    outside: str  # "tunnel", "dsr", "dsr-l2" or "dsr-vxlan"
    cgroup: str  # its processes reach Services by socket hooks; empty: none
    masquerade: LoadedMasquerade | None  # SNAT; None: pods keep their own address
    host: LoadedHost | None = None  # None: the node itself has no host policy
    service_cidrs: tuple[str, ...] = ()  # routed for the node's own packets to Services
    deny_devices: tuple[str, ...] = ()  # patterns of devices under default deny without an endpoint
    resets_revoked: bool = False  # senders in revoked connections get a reset
    external_cidrs: tuple[str, ...] = ()  # allowed ranges of externalIPs; empty: any
    connect_deny: bool = False  # a pod's connect() that policy denies fails
    socket_services: str = "node"  # whose processes the cgroup's hooks serve; "pods": theirs, too
    bypass: str = ""  # "tcp": TCP data between pods of this node bypasses the stack
    first_packets: bool = False  # they may use the fast path
    first_packets_by_uplinks: bool = False  # also to and from ends beyond an uplink

    @property
    def masquerade_ports(self) -> range:
        """The SNAT ports, which no socket of the node gets; empty if pods keep their address."""
        found = self.masquerade
        return range(found.first_port, found.last_port + 1) if found else range(0)


class StateDir:
    """The files of the node whose pins are below one bpffs root."""

    def __init__(self, bpffs: Path, root: Path = DEFAULT_ROOT) -> None:
        self.path = root / quote(str(bpffs.resolve()), safe="")  # also if it is a link

    def read(self, epoch: int) -> Generation | None:
        """The generation of that epoch; None if it was never written here."""
        path = self._file(epoch)
        try:
            raw = json.loads(path.read_text())
            if raw.pop("schema", None) != SCHEMA:
                raise RecordError(path, "it was written by another release")
            return _generation(raw)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise RecordError(path, str(error)) from error

    def remembered(self, epoch: int, warn: Warn) -> Generation | None:
        """Like `read`, for callers that can continue without: an unusable record counts as lost."""
        try:
            return self.read(epoch) if epoch else None
        except RecordError as error:
            warn(f"{error}; using the state in the kernel instead")
            return None

    def write(self, generation: Generation) -> None:
        """Write the whole file or none of it."""
        self._write(self._file(generation.epoch), {"schema": SCHEMA, **_members(generation)})

    def _write(self, path: Path, value: object) -> None:
        half = path.with_suffix(".half")
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o755)
            with half.open("w") as out:
                out.write(json.dumps(value, default=_members))
                out.flush()
                os.fsync(out.fileno())
            half.rename(path)
        except OSError as error:
            with suppress(OSError):
                half.unlink()
            raise self._no_place(error) from error

    def _no_place(self, error: OSError) -> HostError:
        return HostError(
            f"cannot write the record of the load below {self.path}: {error.strerror}",
            "free space there, and make the directory writable",
        )

    def remove(self, epoch: int) -> None:
        """Forget a generation."""
        self._file(epoch).unlink(missing_ok=True)

    def network(self) -> str | None:
        """The network namespace of the pins (network.py), if it is on record."""
        try:
            name = json.loads(self._network.read_text())
        except (OSError, ValueError):
            return None
        return name if isinstance(name, str) else None

    def set_network(self, name: str) -> None:
        """Remember the network namespace."""
        self._write(self._network, name)

    def forget_network(self) -> None:
        """Forget the network namespace: nothing is loaded any more."""
        self._network.unlink(missing_ok=True)

    def reserved(self) -> list[tuple[int, int]]:
        """The ports that are reserved for us only (reserved_ports.py), as ranges."""
        try:
            found = json.loads(self._reserved.read_text())
            return [(int(low), int(high)) for low, high in found]
        except (OSError, ValueError, TypeError):
            return []

    def set_reserved(self, ports: Sequence[tuple[int, int]]) -> None:
        """Record the ports; without any there is no file."""
        if ports:
            self._write(self._reserved, ports)
        else:
            self._reserved.unlink(missing_ok=True)

    def left_out(self) -> dict[str, int]:
        """The counts of what the active Services leave out (services/all_objects.py); empty: nothing."""
        try:
            found = json.loads(self._left_out.read_text())
            return {str(name): int(count) for name, count in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def set_left_out(self, counts: Mapping[str, int]) -> None:
        """Record the counts; without any there is no file."""
        if counts:
            self._write(self._left_out, counts)
        else:
            self._left_out.unlink(missing_ok=True)

    def keep_only(self, epoch: int) -> None:
        """Forget every generation but one."""
        for path in self.path.glob("generation-*"):
            if path != self._file(epoch):
                path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget everything except the lock, and ports that could not be released.

        The lock's file goes when the lock is released.
        """
        for path in self.path.iterdir():
            if path not in (self._lock, self._reserved):
                path.unlink(missing_ok=True)

    def lock(
        self, command: str = "", patience: Patience = command_lock.NONE
    ) -> AbstractContextManager[None]:
        """Lock the node for one command: a key of command_lock.AT_WORK, or "" for another."""
        return self._command_lock.held(command, patience)

    def at_work(self) -> str | None:
        """The command that holds the lock now; "" is one without a name, None is none."""
        return self._command_lock.at_work()

    @property
    def _command_lock(self) -> CommandLock:
        return CommandLock(self.path, self._no_place)

    @property
    def reassembly(self) -> Path:
        """The file that holds the namespace of reassembly.py, while there is one."""
        return self.path / "reassembly"

    @property
    def _lock(self) -> Path:
        return self._command_lock.file

    @property
    def _network(self) -> Path:
        return self.path / "network"

    @property
    def _reserved(self) -> Path:
        return self.path / "reserved-ports"

    @property
    def _left_out(self) -> Path:
        return self.path / "services-left-out"

    def _file(self, epoch: int) -> Path:
        return self.path / f"generation-{epoch}.json"


def _generation(raw: dict[str, Any]) -> Generation:
    """The generation from plain values; missing or unknown fields raise a Python exception."""
    endpoints = (
        LoadedEndpoint(**{**each, "addresses": tuple(each["addresses"])})
        for each in raw.pop("endpoints")
    )
    attachments, former = (
        tuple(Attachment(**each) for each in raw.pop(name)) for name in ("attachments", "former")
    )
    masquerade, host = raw.pop("masquerade"), raw.pop("host")
    if masquerade is not None:
        at = {name: tuple(found) for name, found in masquerade.pop("addresses").items()}
        excepted = tuple(masquerade.pop("excepted"))
        masquerade = LoadedMasquerade(addresses=at, excepted=excepted, **masquerade)
    return Generation(
        masquerade=masquerade,
        host=_host(host) if host else None,
        endpoints=tuple(endpoints),
        attachments=attachments,
        former=former,
        node_addresses=tuple(raw.pop("node_addresses")),
        rules=tuple(raw.pop("rules")),
        service_cidrs=tuple(raw.pop("service_cidrs", ())),
        deny_devices=tuple(raw.pop("deny_devices", ())),
        external_cidrs=tuple(raw.pop("external_cidrs", ())),
        **raw,
    )


def _members(of: Any) -> dict[str, Any]:
    """The members of a dataclass; the encoder calls this for members that are dataclasses."""
    return {each.name: getattr(of, each.name) for each in fields(of)}


def _host(raw: dict[str, Any]) -> LoadedHost:
    ports = {side: tuple(found) for side, found in raw["failsafes"].items()}
    return LoadedHost(raw["name"], Failsafes(**ports))
