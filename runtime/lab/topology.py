# SPDX-License-Identifier: Apache-2.0
"""A lab: one node that routes, a namespace for each pod, one for the external clients.

    with Lab(endpoints) as lab:
        lab.node.run_in(load)          # inside the node's namespace
        send(lab.ends, probes)         # traffic.py

Leaving the context removes everything, also after an exception. The next lab removes what a killed
process left.
"""

import contextlib
import functools
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from policyc.runtime.lab import namespaces, wiring
from policyc.runtime.lab.children import LabError, call

T = TypeVar("T")

UPLINK = "uplink0"
NODE_IPV4 = IPv4Address("172.18.0.2")
NODE_IPV6 = IPv6Address("fd00:172:18::2")
ENDPOINTS_SCHEMA = "policyc.dev/endpoints/v1"

_WIRING_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class LabEndpoint:
    """A pod to make: its name, and at most one address per family."""

    namespace: str
    name: str
    ipv4: IPv4Address | None
    ipv6: IPv6Address | None = None

    @property
    def key(self) -> str:
        """`namespace/name`: the name of the pod's end in probes and metadata."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class External:
    """A host outside the cluster, behind the node's uplink."""

    name: str
    ipv4: IPv4Address | None
    ipv6: IPv6Address | None = None


EXTERNAL = External("external", IPv4Address("198.51.100.10"), IPv6Address("2001:db8:51::10"))


@dataclass(frozen=True, slots=True)
class End:
    """A place where traffic can start and stop: a namespace, and its addresses."""

    name: str
    namespace: Path
    ipv4: IPv4Address | None
    ipv6: IPv6Address | None

    def address(self, family: int) -> IPv4Address | IPv6Address | None:
        """The address of family 4 or 6; None where the end has none."""
        return self.ipv4 if family == 4 else self.ipv6


@dataclass(frozen=True, slots=True)
class LabPod:
    """A pod of the lab: `interface` is the node's side of its pair, `mac` the pod's own.

    With `has_slave`, `interface` is an ipvlan slave in its namespace.
    """

    endpoint: LabEndpoint
    namespace: Path
    interface: str
    mac: str
    has_slave: bool = False


@dataclass(frozen=True, slots=True)
class LabNode:
    """The node: it forwards between its pods and `uplink`, which leads to the external hosts."""

    name: str
    namespace: Path
    uplink: str
    ipv4: IPv4Address
    ipv6: IPv6Address
    bpffs: Path  # a BPF file system of this lab's own, gone with it
    pods: tuple[LabPod, ...]

    def run_in(self, work: Callable[[], T], *, timeout: float | None = None) -> T:
        """Run `work` in a forked child in this node's network namespace; its result or exception.

        The caller's mounts apply, so `bpffs` and /sys/fs/bpf are the same as outside.
        """
        return call(work, namespace=self.namespace, timeout=timeout)

    def endpoints_document(self, metadata: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
        """The endpoints file of docs/bundle-format.md, from records by `namespace/name`.

        The lab adds addresses, interface and mac to the records of its own pods; others (pods of
        other nodes) go in as they are. Every pod of the lab needs a record.
        """
        pods = {pod.endpoint.key: pod for pod in self.pods}
        missing = sorted(pods.keys() - metadata.keys())
        if missing:
            raise LabError(f"no metadata for {', '.join(missing)}")
        records = [
            _record(key, metadata[key], pods.get(key), self.name) for key in sorted(metadata)
        ]
        return {"schema": ENDPOINTS_SCHEMA, "node": self.name, "endpoints": records}

    def write_endpoints(self, path: Path, metadata: Mapping[str, Mapping[str, object]]) -> None:
        """Write `endpoints_document` as JSON."""
        path.write_text(json.dumps(self.endpoints_document(metadata), indent=2) + "\n")


class Lab:
    """A node, its pods and external hosts, which exist while the context is open."""

    node: LabNode
    ends: Mapping[str, End]  # pods by `namespace/name`, externals and the node by name
    seconds: float  # build time

    def __init__(
        self,
        endpoints: Sequence[LabEndpoint],
        *,
        externals: Sequence[External] = (EXTERNAL,),
        node: str = "node-1",
        pair: wiring.Pair = "veth",
    ) -> None:
        self._endpoints, self._pair = tuple(endpoints), pair
        self._externals = tuple(externals)
        self._node = node
        self._resources = contextlib.ExitStack()
        names = [e.key for e in self._endpoints] + [e.name for e in self._externals] + [node]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise LabError(f"several ends have the name {', '.join(doubled)}")

    def __enter__(self) -> "Lab":
        if os.geteuid() != 0:
            raise LabError("a lab needs root, for its network namespaces")
        started = time.monotonic()
        namespaces.remove_stale_labs()
        with contextlib.ExitStack() as resources:
            suffix = resources.enter_context(namespaces.claimed_suffix())
            resources.callback(namespaces.remove_lab, suffix)
            self._build(suffix)
            self._resources = resources.pop_all()
        self.seconds = time.monotonic() - started
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.close()

    def _build(self, suffix: str) -> None:
        short = [f"pod{number}" for number in range(1, len(self._endpoints) + 1)]
        paths = namespaces.create_namespaces(suffix, ["node", "external", *short])
        pods = tuple(
            LabPod(endpoint, paths[name], wiring.LEAF_INTERFACE, _mac(2, 1), has_slave=True)
            if self._pair == "ipvlan"
            else LabPod(endpoint, paths[name], name, self._mac(0, number))
            for number, (name, endpoint) in enumerate(zip(short, self._endpoints, strict=True), 1)
        )
        self.node = LabNode(
            self._node, paths["node"], UPLINK, NODE_IPV4, NODE_IPV6,
            namespaces.mount_bpffs(suffix), pods,
        )  # fmt: skip
        leaves = [
            wiring.Leaf(
                pod.namespace,
                wiring.NODE_SLAVE if pod.has_slave else pod.interface,
                _mac(3, 1) if pod.has_slave else self._mac(1, number),
                pod.mac,
                *(_held(pod.endpoint), self._pair),
            )
            for number, pod in enumerate(pods, 1)
        ]
        outside = tuple(address for external in self._externals for address in _held(external))
        leaves.append(wiring.Leaf(paths["external"], UPLINK, _mac(2, 1), _mac(3, 1), outside))
        own = (self.node.ipv4, self.node.ipv6)
        call(
            functools.partial(wiring.wire, paths["node"], own, UPLINK, leaves),
            timeout=_WIRING_TIMEOUT,
        )
        self.ends = {end.name: end for end in self._ends(paths["external"])}

    def _mac(self, side: int, number: int) -> str:
        """Of a pod's pair."""
        return wiring.NO_MAC if self._pair == "netkit-l3" else _mac(side, number)

    def _ends(self, outside: Path) -> list[End]:
        node = self.node
        return [
            *(
                End(pod.endpoint.key, pod.namespace, pod.endpoint.ipv4, pod.endpoint.ipv6)
                for pod in node.pods
            ),
            *(
                End(external.name, outside, external.ipv4, external.ipv6)
                for external in self._externals
            ),
            End(node.name, node.namespace, node.ipv4, node.ipv6),
        ]


def _record(
    key: str, metadata: Mapping[str, object], pod: LabPod | None, node: str
) -> dict[str, object]:
    namespace, _, name = key.partition("/")
    record: dict[str, object] = {"namespace": namespace, "name": name, **metadata}
    if pod is not None:
        record |= {
            "addresses": [str(address) for address in _held(pod.endpoint)],
            "interface": pod.interface,
            "mac": pod.mac,
        }
        if pod.has_slave:
            record["netns"] = str(pod.namespace)
        record.setdefault("node", node)
        record.setdefault("hostNetwork", False)
    return record


def _held(holder: LabEndpoint | External) -> tuple[wiring.Address, ...]:
    return tuple(a for a in (holder.ipv4, holder.ipv6) if a is not None)


def _mac(side: int, number: int) -> str:
    """A locally administered address; `side` distinguishes the kinds that `number` counts."""
    return f"02:00:00:{side:02x}:{number >> 8:02x}:{number & 0xFF:02x}"
