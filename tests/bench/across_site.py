# SPDX-License-Identifier: Apache-2.0
"""Two nodes for across.py, each a namespace, with nothing but a link between them.

    pod-a -- a ------- b -- pod-b
              |         |
              +-outside-+

Pods hang on veth pairs. `outside` is a client with a link to either node. Neighbours are known from the
start, and no reverse paths are checked: an answer may come by another link than its question left by.
"""

import ctypes
import fcntl
import json
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from datapath_beds import CLIENT, SERVER, address, ip, refuse

from policyc.runtime.attach.xdp import Mode as XdpMode
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.devices.uplinks import Outside
from policyc.runtime.endpoints.forwarding import Forwarding
from policyc.runtime.lab import namespaces
from policyc.runtime.lab.children import call
from policyc.runtime.lab.topology import LabEndpoint
from policyc.runtime.load import node as runtime
from policyc.runtime.load.request import LoadRequest

A = LabEndpoint("", "a", IPv4Address("192.0.2.1"), IPv6Address("2001:db8:2::1"))
B = LabEndpoint("", "b", IPv4Address("192.0.2.2"), IPv6Address("2001:db8:2::2"))
OUTSIDE = LabEndpoint("", "outside", IPv4Address("198.51.100.9"), IPv6Address("2001:db8:3::9"))
NODES = {"a": A, "b": B}
PODS = {"a": CLIENT, "b": SERVER}
UPLINKS = ["up0", "out0"]
"""Of either node: to the other one, and to the client outside."""
_GATEWAY = LabEndpoint("", "gateway", IPv4Address("169.254.1.1"), IPv6Address("fe80::1"))
_MACS = {
    "a up0": "02:00:00:00:01:0a", "b up0": "02:00:00:00:01:0b",
    "a out0": "02:00:00:00:02:0a", "b out0": "02:00:00:00:02:0b",
    "outside to-a": "02:00:00:00:03:0a", "outside to-b": "02:00:00:00:03:0b",
    "a pod": "02:00:00:00:04:0a", "b pod": "02:00:00:00:04:0b",
    "pod-a eth0": "02:00:00:00:05:0a", "pod-b eth0": "02:00:00:00:05:0b",
}  # fmt: skip
"""By namespace and device."""
_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17


@dataclass(frozen=True)
class Site:
    """The namespaces by name, and the nodes' pin directories."""

    at: dict[str, Path]
    bpffs: Path
    folder: Path

    def run(self, node: str, *command: str, text: str = "") -> None:
        """A command, in a node."""
        entered = ["nsenter", f"--net={self.at[node]}", *command]
        subprocess.run(entered, input=text, text=True, check=True)

    def load(
        self,
        node: str,
        bundle: Path,
        forward: Forwarding,
        services: list[JsonValue] | None = None,
        outside: Outside = "tunnel",
        xdp_mode: XdpMode | None = None,
    ) -> None:
        """`policyc node load` on a node, with both of its uplinks."""
        endpoints = self.folder / f"endpoints-{node}.json"
        endpoints.write_text(json.dumps(_endpoints(node)))

        def load() -> None:
            request = LoadRequest(
                bundle=bundle,
                endpoints=endpoints,
                bpffs=self.bpffs / f"policyc-{node}",
                state_root=self.folder / f"state-{node}",
                forwarding=forward,
                uplinks=UPLINKS,
                services=services,
                outside=outside,
                xdp_mode=xdp_mode,
            )
            runtime.load(request, warn=refuse, note=refuse)

        call(load, namespace=self.at[node])

    def finish_checksums(self) -> None:
        """Compute checksums, and split segments, before packets leave the sender, as on a wire."""
        for place in _MACS:
            name, device = place.split()
            call(partial(_leave_no_checksum, device), namespace=self.at[name])


def _leave_no_checksum(device: str) -> None:
    value = ctypes.create_string_buffer(struct.pack("=II", _ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sQ16x", device.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, _SIOCETHTOOL, request)


def _endpoints(node: str) -> dict[str, object]:
    pods = []
    for where, pod in PODS.items():
        own = {"interface": "pod", "mac": _MACS[f"pod-{where} eth0"]} if where == node else {}
        known = {"namespace": pod.namespace, "name": pod.name, "labels": {"app": pod.name}}
        pods.append(known | {"addresses": _both(pod), "node": where} | own)
    nodes = [{"name": name, "addresses": _both(own)} for name, own in NODES.items()]
    return {"schema": "policyc.dev/endpoints/v1", "node": node, "endpoints": pods, "nodes": nodes}


def _both(end: LabEndpoint) -> list[str]:
    return [address(end, family) for family in (4, 6)]


@contextmanager
def two_nodes(straight: bool = False) -> Iterator[Site]:
    """They stand for as long as the context is open. `straight`: b reaches `outside` by its own link."""
    with namespaces.claimed_suffix() as suffix, ExitStack() as held:
        held.callback(namespaces.remove_lab, suffix)
        at = namespaces.create_namespaces(suffix, ["a", "b", "pod-a", "pod-b", "outside"])
        for node in NODES:
            for path in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
                call(lambda path=path: _set(path, "1"), namespace=at[node])
        for path in at.values():
            for each in ("all", "default"):
                call(lambda each=each: _set(f"ipv4/conf/{each}/rp_filter", "0"), namespace=path)
        _cable(at, "a up0", "b up0")
        for node in NODES:
            _cable(at, f"{node} out0", f"outside to-{node}")
            _cable(at, f"{node} pod", f"pod-{node} eth0")
        for name, lines in _configuration(straight).items():
            text = "\n".join(lines)
            batch = ["ip", "-n", at[name].name, "-batch", "-"]
            subprocess.run(batch, input=text, text=True, check=True)
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="pc-bed-")))
        yield Site(at, namespaces.mount_bpffs(suffix), folder)


def _set(path: str, value: str) -> None:
    Path(f"/proc/sys/net/{path}").write_text(value)


def _cable(at: dict[str, Path], one: str, other: str) -> None:
    (here, device), (there, peer) = one.split(), other.split()
    ip("link", "add", device, "address", _MACS[one], "netns", at[here].name, "type", "veth",
       "peer", "name", peer, "address", _MACS[other], "netns", at[there].name)  # fmt: skip


def _configuration(straight: bool) -> dict[str, list[str]]:
    """Lines of `ip -batch`, by namespace."""
    lines: dict[str, list[str]] = {name: [] for name in ("a", "b", "pod-a", "pod-b", "outside")}
    for place in _MACS:
        name, device = place.split()
        lines[name].append(f"link set {device} up")
    for node, other in (("a", "b"), ("b", "a")):
        lines[node] += _addressed(NODES[node], "up0")
        lines[node] += _neighbour(NODES[other], "up0", f"{other} up0")
        lines[node] += _routed(PODS[other], "up0", NODES[other])
        lines[node] += _neighbour(PODS[node], "pod", f"pod-{node} eth0")
        lines[node] += _neighbour(
            OUTSIDE, "out0", f"outside to-{node}", is_on=node == "a" or straight
        )
        lines["outside"] += _neighbour(NODES[node], f"to-{node}", f"{node} out0")
        lines[f"pod-{node}"] += _addressed(PODS[node], "eth0")
        lines[f"pod-{node}"] += _neighbour(_GATEWAY, "eth0", f"{node} pod")
        lines[f"pod-{node}"] += _routed(None, "eth0", _GATEWAY)
    if not straight:
        lines["b"] += _routed(OUTSIDE, "up0", A)
    lines["outside"] = [*_addressed(OUTSIDE, "to-a"), *lines["outside"]]
    lines["outside"] += _routed(SERVER, "to-a", A)
    return lines


def _addressed(end: LabEndpoint, device: str) -> list[str]:
    return [f"addr add {end.ipv4}/32 dev {device}", f"addr add {end.ipv6}/128 dev {device} nodad"]


def _neighbour(end: LabEndpoint, device: str, who: str, is_on: bool = True) -> list[str]:
    """On the link, and known there."""
    found = []
    for each in _both(end) if is_on else ():
        found.append(f"route replace {each} dev {device}")
        found.append(f"neigh replace {each} lladdr {_MACS[who]} dev {device} nud permanent")
    return found


def _routed(end: LabEndpoint | None, device: str, by: LabEndpoint) -> list[str]:
    """`end` None: everybody."""
    found = []
    for family in (4, 6):
        everybody = "0.0.0.0/0" if family == 4 else "::/0"
        there, gateway = address(end, family) if end else everybody, address(by, family)
        found.append(f"route replace {there} via {gateway} dev {device} onlink")
    return found
