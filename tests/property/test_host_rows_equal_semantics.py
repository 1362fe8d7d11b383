# SPDX-License-Identifier: Apache-2.0
"""Nodes under host policy are lowered to endpoints: tables and oracle give the same verdicts."""

import random
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from policyc.backends.ebpf_c.layout import choose_layout
from policyc.compiler.driver.compile.host_subjects import (
    Hosts,
)
from policyc.compiler.driver.compile.pipeline import decide_all
from policyc.ir.diagnostics import Report
from policyc.ir.hosts import HostEndpoint
from policyc.ir.lookup import entry_of
from policyc.ir.policy import Direction
from policyc.ir.semantics import DeniedByHost, EndVerdict, end_verdict
from policyc.ir.spans import NOWHERE
from policyc.ir.universe import End, Endpoint, Flow, Node, Universe
from policyc.runtime.endpoints.endpoints import NodeRecord
from policyc.runtime.policy.host_policy import HostSubject
from tests.property.cases import random_service
from tests.property.connection_cases import connection_case
from tests.property.length import examples
from tests.property.map_engine import MapEngine
from tests.property.sayable_policies import (
    sayable,
)
from tests.property.tiered_cases import TieredCase

SEEDS = st.integers(min_value=0, max_value=2**32)


def hosts_of(universe: Universe) -> Hosts:
    """The interfaces that the nodes have, by names of their own; all others are nodes of Cilium's."""
    interfaces = tuple(
        HostEndpoint(
            node.name, node.name, node.host.labels, (), node.host.denies_unmatched, NOWHERE
        )
        for node in universe.nodes
        if node.host is not None
    )
    return Hosts(interfaces)


def as_endpoint(engine: MapEngine, node: Node, family: int) -> Endpoint:
    """The node as a subject, placed as a load places it."""
    assert node.host is not None
    address = node.address(family)
    assert address is not None
    record = NodeRecord(node.name, dict(node.labels), node.addresses)
    host = HostSubject(node.name, record, dict(node.host.labels), "*", has_failsafes=False)
    place = engine.tables.place_host(host.record(address), record, address)
    found = Endpoint("", node.name, node=node.name, addresses=(address,))
    engine.placed[found.qualified_name] = place
    engine._write()
    return found


def decider(verdict: EndVerdict) -> tuple[str, list[str]]:
    """The kind of the decider, and its policies."""
    if isinstance(verdict.decider, DeniedByHost):
        return "default-deny", [f"HostEndpoint {verdict.decider.host}"]
    entry = entry_of(verdict)
    return entry.kind, list(entry.policies)


def flows(case: TieredCase, rng: random.Random) -> list[Flow]:
    """From and to nodes, mostly."""
    found = case.flows(rng, 20)
    for node in case.universe.nodes:
        for family in {address.version for address in node.addresses}:
            for _ in range(8):
                other = case._end(rng, family)
                ends = (node, other) if rng.random() < 0.5 else (other, node)
                found.append(Flow(*ends, random_service(rng, family), family))
    return [flow for flow in found if flow.src != flow.dst]


@settings(max_examples=examples(150, 2))
@given(SEEDS)
@example(39916800)  # a node that was to be found by its interface's labels
def test_tables_equal_the_semantics_for_hosts_and_pods(seed: int) -> None:
    rng = random.Random(seed)
    case = connection_case(rng)
    nodes = tuple(
        n if n.host is None else replace(n, host=replace(n.host, name=n.name, has_failsafes=False))
        for n in case.universe.nodes
    )
    case = TieredCase(sayable(case.policies), replace(case.universe, nodes=nodes))
    lowered = hosts_of(case.universe).lowering.run(case.policies, Report())
    shown = case.universe if rng.random() < 0.5 else None
    decision = decide_all(lowered, shown).decision
    engine = MapEngine(decision, choose_layout(decision))
    for endpoint in case.universe.endpoints:
        engine.place(endpoint)
    for flow in flows(case, rng):
        for direction, subject, peer in (
            (Direction.EGRESS, flow.src, flow.dst),
            (Direction.INGRESS, flow.dst, flow.src),
        ):
            _check(case, engine, direction, subject, peer, flow)


def _check(
    case: TieredCase, engine: MapEngine, direction: Direction, subject: End, peer: End, flow: Flow
) -> None:
    asked = subject
    if isinstance(subject, Node):
        if subject.host is None:
            return
        asked = as_endpoint(engine, subject, flow.family)
    seen = engine.decide(direction, asked, peer, flow)
    if seen is None:
        return
    allowed, rule = seen
    wanted = end_verdict(case.policies, direction, subject, peer, flow)
    assert allowed is not wanted.action.is_deny, f"{flow} {direction}"
    assert (rule["kind"], rule["policies"]) == decider(wanted), f"{flow} {direction}"
