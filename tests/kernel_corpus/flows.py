# SPDX-License-Identifier: Apache-2.0
"""Frames for a bundle, each with the verdict of the reference semantics: for kernels without a compiler.

NAME/endpoints.json is for the loader; NAME/frames.json has `devices` and, per frame, the hook that
decides it (`pc_from_pod` of the sender's device, else `pc_to_pod` of the receiver's), its bytes and the
verdict.
"""

import json
import random
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import product
from pathlib import Path
from typing import Any

from policyc.compiler.driver.compile.pipeline import Decided
from policyc.ir.semantics import verdict
from policyc.ir.services import Protocol, Service
from policyc.ir.universe import End, Endpoint, Flow, Universe, end_address
from tests.property.kernel_engine import frame_of

UPLINK = "pcup"
OUTSIDE = ("203.0.113.9", "198.51.100.7", "172.16.9.9", "2001:db8:1::9", "2001:db8:77::1")
PORTS = {
    Protocol.TCP: (22, 80, 443, 5432, 8080, 8443, 9005, 9010, 60000),
    Protocol.UDP: (53, 100, 443, 5353),
    Protocol.SCTP: (3868,),
}
ICMP_TYPES = {4: (0x0800, 0x0304), 6: (0x8000, 0x0200)}  # type << 8 | code
CANDIDATES, ASKED = 4000, 150
"""So many flows are judged, and so many of those that pass, and of the others, are asked."""


@dataclass(frozen=True)
class Device:
    """The node's side of a pod's veth, for the builder of frames."""

    interface: str
    mac: str


def write_frames(folder: Path, decided: Decided) -> None:
    """Write endpoints.json and frames.json for the pods of the case, all on one node."""
    assert decided.universe is not None, "only a known cluster can be asked"
    pods = _local_pods(decided.universe)
    devices = {
        pod.qualified_name: Device(f"pc{at}", f"02:00:00:00:01:{at:02x}")
        for at, pod in enumerate(pods)
    }
    (folder / "endpoints.json").write_text(json.dumps(_endpoints(decided.universe, pods, devices)))
    flows = _flows(pods, random.Random(1))
    frames = [_frame(decided, flow, 20000 + at, devices) for at, flow in enumerate(flows)]
    frames = [each for passes in (True, False) for each in _some(frames, passes)]
    record = {"devices": [device.interface for device in devices.values()], "frames": frames}
    (folder / "frames.json").write_text(json.dumps(record))


def _some(frames: list[dict[str, Any]], passes: bool) -> list[dict[str, Any]]:
    found = [frame for frame in frames if frame["passes"] == passes][:ASKED]
    assert found, f"no flow at all has the verdict passes={passes}"
    return found


def _local_pods(universe: Universe) -> list[Endpoint]:
    """The pods of the node with the most pods, and all pods without a node."""
    found = [e for e in universe.endpoints if e.addresses and not e.host_network]
    return [e for e in found if e.node == _own_node(universe)]


def _own_node(universe: Universe) -> str:
    names = [e.node for e in universe.endpoints if not e.host_network]
    return max(sorted(set(names)), key=names.count)


def _flows(pods: list[Endpoint], rng: random.Random) -> list[Flow]:
    """Some of all flows between pods and addresses outside, each kind of service among them."""
    ends: list[End] = [*pods, *map(ip_address, OUTSIDE)]
    flows = [
        Flow(src, dst, service, family)
        for src, dst in product(ends, ends)
        for family in (4, 6)
        if src != dst and None not in (end_address(src, family), end_address(dst, family))
        if isinstance(src, Endpoint) or isinstance(dst, Endpoint)
        for service in _services(family)
        # Without ports, a reply looks like a request: one direction only.
        if service.number in {p.value for p in Protocol} or str(src) < str(dst)
    ]
    return rng.sample(flows, min(CANDIDATES, len(flows)))


def _services(family: int) -> list[Service]:
    ports = [Service(protocol.value, port) for protocol in PORTS for port in PORTS[protocol]]
    icmp = [Service(1 if family == 4 else 58, value) for value in ICMP_TYPES[family]]
    return [*ports, *icmp, Service(47), Service(50)]


def _frame(decided: Decided, flow: Flow, number: int, devices: dict[str, Device]) -> dict[str, Any]:
    from_pod = isinstance(flow.src, Endpoint)
    pod = flow.src if from_pod else flow.dst
    assert isinstance(pod, Endpoint)
    device = devices[pod.qualified_name].interface
    return {
        "hook": "pc_from_pod" if from_pod else "pc_to_pod",
        "device": device,
        "came_in": device if from_pod else UPLINK,
        "bytes": frame_of(flow, number, devices).hex(),
        "passes": not verdict(decided.policies, flow).action.is_deny,
        "flow": f"{_shown(flow.src)} -> {_shown(flow.dst)} {flow.service} (IPv{flow.family})",
    }


def _shown(end: End) -> str:
    return end.qualified_name if isinstance(end, Endpoint) else str(end)


def _endpoints(
    universe: Universe, pods: list[Endpoint], devices: dict[str, Device]
) -> dict[str, Any]:
    nodes = [
        {"name": n.name, "labels": dict(n.labels), "addresses": [str(a) for a in n.addresses]}
        for n in universe.nodes
    ]
    return {
        "schema": "policyc.dev/endpoints/v1",
        "node": _own_node(universe) or "node-1",
        "nodes": nodes,
        "endpoints": [
            {
                "namespace": e.namespace,
                "name": e.name,
                "labels": dict(e.labels),
                "namespaceLabels": dict(e.namespace_labels),
                "ports": [
                    {"name": p.name, "protocol": p.protocol, "port": p.number} for p in e.ports
                ],
                "addresses": [str(a) for a in e.addresses],
                "interface": devices[e.qualified_name].interface,
                "mac": devices[e.qualified_name].mac,
                "node": e.node or "node-1",
                "serviceAccount": e.service_account,
                "serviceAccountLabels": dict(e.service_account_labels),
            }
            for e in pods
        ],
    }
