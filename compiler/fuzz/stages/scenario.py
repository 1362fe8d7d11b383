# SPDX-License-Identifier: Apache-2.0
"""An example that the front end has read: policies, the cluster, and the questions about it.

Host interfaces are left out: only pods are ends of the questions. A pod of unknown address, as of a
Deployment, gets one address, because the flows of packets have addresses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address

from policyc.compiler.driver.compile.enforced import enforced
from policyc.compiler.driver.compile.host_subjects import (
    NO_HOSTS,
)
from policyc.compiler.driver.compile.pipeline import (
    Decided,
    decide_all,
)
from policyc.compiler.frontend import ReadOptions, read_scenario
from policyc.compiler.frontend.flows.files import flow_from_record
from policyc.compiler.frontend.flows.reading import UniverseIndex
from policyc.compiler.fuzz.stages.answers import (
    Answer,
    Question,
    of_verdict,
)
from policyc.compiler.fuzz.strategies.draw import Draw
from policyc.ir.diagnostics import Report
from policyc.ir.policy import Direction, PolicySet
from policyc.ir.semantics import as_seen, is_between_neighbours, is_from_its_node, verdict
from policyc.ir.spans import Span
from policyc.ir.universe import Address, Endpoint, Flow, Node, Universe

_FIRST4, _FIRST6 = IPv4Address("10.255.0.1"), IPv6Address("fd00:ff::1")
FlowRecord = dict[str, str | int]
"""A flow as `policyc eval` reads it."""


@dataclass(frozen=True)
class Scenario:
    """An example with its flows. `known` is the part of the universe that the compiler is given."""

    draw: Draw
    policies: PolicySet
    universe: Universe
    known: Universe
    flows: tuple[Flow, ...] = ()

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """Both ends of every flow, the source's first."""
        return tuple(
            Question(flow, direction, is_decided(flow, direction))
            for flow in self.flows
            for direction in (Direction.EGRESS, Direction.INGRESS)
        )

    @cached_property
    def reference(self) -> tuple[Answer, ...]:
        """The answers of the reference semantics, question by question."""
        found: list[Answer] = []
        for flow in self.flows:
            given = verdict(self.policies, flow)
            found += (of_verdict(given.egress), of_verdict(given.ingress))
        return tuple(found)

    @cached_property
    def decided(self) -> Decided:
        """The Decision IR for the whole cluster."""
        return decide_all(self.policies, self.universe)

    @cached_property
    def decided_early(self) -> Decided:
        """The Decision IR for the pods that the compiler is given."""
        return (
            self.decided if self.known == self.universe else decide_all(self.policies, self.known)
        )


def is_decided(flow: Flow, direction: Direction) -> bool:
    """Whether the end is a pod whose policies apply (A21 to A23, A26)."""
    subject = flow.src if direction is Direction.EGRESS else flow.dst
    if not isinstance(subject, Endpoint) or subject.host_network:
        return False
    if is_between_neighbours(flow) or is_from_its_node(flow.src, flow.dst):
        return False
    return as_seen(flow.src) != as_seen(flow.dst)


def read_draw(draw: Draw, options: ReadOptions, name: str = "fuzz") -> Scenario:
    """Read an example, without flows. InputError if the front end or the datapath refuses it."""
    given, cluster = read_scenario(name, draw.objects, options)
    allowed, _ = enforced(given, options.unsupported)
    policies = NO_HOSTS.lowering.run(allowed, Report())
    universe = _placed(cluster.universe)
    shown = tuple(e for e in universe.endpoints if e.qualified_name not in draw.later)
    return Scenario(draw, policies, universe, Universe(shown, universe.nodes))


def _placed(universe: Universe) -> Universe:
    """Every pod with an address of its own, no node with a host interface."""
    nodes = {node.name: replace(node, host=None) for node in universe.nodes}
    free = _free_addresses(universe)
    endpoints = []
    for endpoint in universe.endpoints:
        on = endpoint.its_node
        endpoint = replace(endpoint, its_node=None if on is None else nodes.get(on.name))
        if not endpoint.addresses_known and not endpoint.host_network:
            endpoint = replace(endpoint, addresses=next(free), addresses_known=True)
        endpoints.append(endpoint)
    return Universe(tuple(endpoints), tuple(nodes.values()))


def _free_addresses(universe: Universe) -> Iterator[tuple[Address, ...]]:
    taken = {a for e in universe.endpoints for a in e.addresses}
    taken |= {a for node in universe.nodes for a in node.addresses}
    for number in range(1 << 16):
        pair: tuple[Address, ...] = (_FIRST4 + number, _FIRST6 + number)
        if taken.isdisjoint(pair):
            yield pair


def with_records(scenario: Scenario, records: Sequence[FlowRecord]) -> Scenario:
    """The scenario with the flows of these records that are flows of its cluster."""
    index = UniverseIndex(scenario.universe)
    found = (flow_of(record, index) for record in records)
    return replace(scenario, flows=tuple(flow for flow in found if flow is not None))


def flow_of(record: FlowRecord, index: UniverseIndex) -> Flow | None:
    """The flow of a record; None if an end does not exist."""
    report = Report()
    request = flow_from_record(record, "flow", Span("<flow>", 0, 0), report)
    return None if request is None else index.flow(request, report)


def record_of(flow: Flow) -> FlowRecord:
    """A flow as a record that `flow_of` reads, and `policyc eval --flows`, too."""
    found: FlowRecord = {"src": _end_text(flow, flow.src), "dst": _end_text(flow, flow.dst)}
    service = flow.service
    match service.number:
        case 6 | 17 | 132:
            found |= {"protocol": _NAMES[service.number], "port": service.value}
        case 1 | 58:
            found["protocol"] = "icmp"
            found |= {"icmp_type": service.value >> 8, "icmp_code": service.value & 0xFF}
        case other:
            found["protocol"] = str(other)
    return found | {"family": flow.family}


_NAMES = {6: "tcp", 17: "udp", 132: "sctp"}


def _end_text(flow: Flow, end: object) -> str:
    match end:
        case Endpoint():
            return end.qualified_name
        case Node() if end.speaks:
            return f"node/{end.name}"
        case Node():
            return str(end.address(flow.family))
        case _:
            return str(end)
