# SPDX-License-Identifier: Apache-2.0
"""The kernel's verdicts: a case is compiled, loaded on a lab node, and run by BPF_PROG_TEST_RUN.

Runs the whole path: C by clang, seeds, node placement, hooks, tail call, policy program. Frames enter by
the hook that decides in real life: `pc_from_pod` of the source's device where the source is a local pod,
else `pc_to_pod` of the destination's.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from policyc.backends.ebpf_c.frames import Budgets
from policyc.compiler.driver.compile.bundle import (
    Provenance,
    node_texts,
    write_bundle,
)
from policyc.compiler.driver.compile.emission import emit_all
from policyc.compiler.driver.compile.pipeline import decide_all
from policyc.compiler.driver.compile.target import (
    DEFAULT_TARGET,
    Target,
)
from policyc.ir.semantics import is_from_its_node
from policyc.ir.services import is_neighbour_discovery
from policyc.ir.universe import Endpoint, Flow, Node, Universe
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.lab.topology import LabNode, LabPod
from policyc.runtime.load.node import (
    load,
    unload,
)
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.observe.status import status
from tests.kernel.support import packets
from tests.kernel.support.packets import (
    Host,
    Payload,
)
from tests.property.cases import Case

OUTSIDE_MAC = "02:00:00:00:00:ee"
NEXT = -1


@dataclass(frozen=True)
class Answers:
    """Per flow whether it passed, and per rule (kind, policies, line) how many packets it decided."""

    passed: list[bool]
    counts: dict[tuple[str, tuple[str, ...], int], int]


def kernel_answers(
    node: LabNode,
    case: Case,
    known: Universe | None,
    flows: Sequence[Flow],
    folder: Path,
    budgets: Budgets,
    target: Target = DEFAULT_TARGET,
) -> Answers:
    """Compile for the `known` endpoints, load for all of the case's, and run the flows."""
    decided = decide_all(case.policies, known)
    bundle = folder / "bundle"
    emitted = emit_all(decided.decision, budgets, target)
    write_bundle(bundle, node_texts(decided.decision), emitted, Provenance((), {}, {}))
    pods = pods_of(node, case.universe)
    endpoints = folder / "endpoints.json"
    endpoints.write_text(json.dumps(_endpoints_file(node, case.universe, pods)))
    return node.run_in(lambda: _run(node, bundle, endpoints, folder, pods, flows))


def pods_of(node: LabNode, universe: Universe) -> dict[str, LabPod]:
    """The lab's pod behind each endpoint of a case, in their order."""
    return {e.qualified_name: node.pods[at] for at, e in enumerate(universe.endpoints)}


def _endpoints_file(
    node: LabNode, universe: Universe, pods: dict[str, LabPod]
) -> dict[str, object]:
    own = _node_of(universe) or node.name
    records = [
        {
            "namespace": e.namespace,
            "name": e.name,
            "labels": dict(e.labels),
            "namespaceLabels": dict(e.namespace_labels),
            "ports": [{"name": p.name, "protocol": p.protocol, "port": p.number} for p in e.ports],
            "addresses": [str(a) for a in e.addresses],
            "interface": pods[e.qualified_name].interface,
            "mac": pods[e.qualified_name].mac,
            "node": own,
            "serviceAccount": e.service_account,
            "serviceAccountLabels": dict(e.service_account_labels),
        }
        for e in universe.endpoints
        if not e.host_network and e.addresses
    ]
    nodes = [
        {"name": n.name, "labels": dict(n.labels), "addresses": [str(a) for a in n.addresses]}
        for n in universe.nodes
    ]
    schema = "policyc.dev/endpoints/v1"
    return {"schema": schema, "node": own, "endpoints": records, "nodes": nodes}


def _node_of(universe: Universe) -> str:
    """The node that all pods are on, so that rules about the local node mean it; else empty."""
    names = {e.node for e in universe.endpoints if not e.host_network}
    return names.pop() if len(names) == 1 else ""


def _run(
    node: LabNode,
    bundle: Path,
    endpoints: Path,
    folder: Path,
    pods: dict[str, LabPod],
    flows: Sequence[Flow],
) -> Answers:
    import socket

    state = folder.parent / "state"
    # What an earlier case connected must not answer for this one.
    unload(bpffs=node.bpffs, state_root=state)
    load(LoadRequest(bundle=bundle, endpoints=endpoints, bpffs=node.bpffs, state_root=state))
    uplink = socket.if_nametoindex(node.uplink)
    index = {name: socket.if_nametoindex(pod.interface) for name, pod in pods.items()}
    pins = Pins(node.bpffs)
    passed = []
    with (
        bpf_syscall.obj_get(pins.hook("pc_from_pod")) as from_pod,
        bpf_syscall.obj_get(pins.hook("pc_to_pod")) as to_pod,
    ):
        leaves, enters = bpf_syscall.TestRun(from_pod), bpf_syscall.TestRun(to_pod)
        for number, flow in enumerate(flows):
            frame = frame_of(flow, 20000 + number, pods)
            if isinstance(flow.src, Endpoint) and not flow.src.host_network:
                at = index[flow.src.qualified_name]
                verdict = leaves(frame, ifindex=at, ingress_ifindex=at)
            else:
                assert isinstance(flow.dst, Endpoint)
                at = index[flow.dst.qualified_name]
                verdict = enters(frame, ifindex=at, ingress_ifindex=_came_in(flow, uplink))
            passed.append(verdict == NEXT)
    return Answers(passed, _counts(node, state))


def _came_in(flow: Flow, uplink: int) -> int:
    """The device a frame for a pod came in by: none if the pod's own node generated it (A22)."""
    return 0 if is_from_its_node(flow.src, flow.dst) else uplink


def _counts(node: LabNode, state: Path) -> dict[tuple[str, tuple[str, ...], int], int]:
    from policyc.runtime.state import StateDir

    now = status(bpffs=node.bpffs, state_root=state)
    assert now is not None
    generation = StateDir(node.bpffs, state).read(now.epoch)
    assert generation is not None
    found: dict[tuple[str, tuple[str, ...], int], int] = {}
    for count in now.rules:
        rule = generation.rules[count.rule]
        line = rule["places"][0]["line"] if rule["kind"] == "rule" else 0
        key = (rule["kind"], tuple(rule["policies"]), line)
        found[key] = found.get(key, 0) + count.packets
    return found


class HasMac(Protocol):
    """The attribute of a pod that the builder of frames reads."""

    @property
    def mac(self) -> str: ...


def frame_of(flow: Flow, number: int, pods: Mapping[str, HasMac]) -> bytes:
    """The first packet of a flow; `number` keeps flows apart as source port or ICMP id."""
    src, dst = _host(flow.src, flow.family, pods), _host(flow.dst, flow.family, pods)
    if flow.family == 6 and is_neighbour_discovery(flow.service):
        kind, code = flow.service.value >> 8, flow.service.value & 0xFF
        asked = packets.icmp6(kind, code, 0, 0, packets.packed(dst.ip6))
        return packets.frame(src, dst, asked, family=6, hop_limit=255)
    return packets.frame(src, dst, _payload(flow, number), family=flow.family)


def _host(end: object, family: int, pods: Mapping[str, HasMac]) -> Host:
    if isinstance(end, Endpoint) and not end.host_network:
        address = str(end.address(family))
        return Host(pods[end.qualified_name].mac, address, address)
    outside = str(end.address(family) if isinstance(end, Endpoint | Node) else end)
    return Host(OUTSIDE_MAC, outside, outside)


def _payload(flow: Flow, number: int) -> Payload:
    service = flow.service
    match service.number:
        case packets.TCP:
            return packets.tcp(number, service.value, packets.SYN)
        case packets.UDP:
            return packets.udp(number, service.value)
        case packets.SCTP:
            return packets.sctp(number, service.value, 1)
        case packets.ICMP:
            return packets.icmp(service.value >> 8, service.value & 0xFF, number)
        case packets.ICMP6:
            return packets.icmp6(service.value >> 8, service.value & 0xFF, number)
        case other:
            return packets.raw(other, struct.pack("!II", number, 0) * 4)
