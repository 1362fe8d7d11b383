# SPDX-License-Identifier: Apache-2.0
"""What a node would answer: the seeds, the node's own placements and writes, read as the plan says.

The same road as the datapath's, in Python: endpoints are placed by `runtime/tables.py` from the bundle's
JSON, unknown addresses by the prefix table, diagrams by search in the steps.
"""

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from policyc.backends.ebpf_c.seeds import make_seeds
from policyc.compiler.driver.node_tables import classifier_json, rules_json
from policyc.ir.decision import DecisionIR
from policyc.ir.plan import LookupPlan, address_column_id
from policyc.ir.policy import Direction
from policyc.ir.universe import End, Endpoint, Flow, Node
from policyc.runtime.bundle import Bundle
from policyc.runtime.endpoints import ContainerPort, EndpointRecord, NodeRecord
from policyc.runtime.placement import Placement
from policyc.runtime.tables import PolicyTables


@dataclass
class MemoryBundle:
    """The parts of a bundle that the node's tables read, after a trip through JSON."""

    plan: dict[str, Any]
    classifier: dict[str, Any]
    rules: tuple[dict[str, Any], ...]
    seeds: dict[str, "array[int]"]

    def seed_words(self, name: str) -> Sequence[int]:
        return tuple(self.seeds[name])


def memory_bundle(decision: DecisionIR, plan: LookupPlan) -> MemoryBundle:
    def copied(value: dict[str, Any]) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(json.dumps(value)))

    seeds = {s.map_name: array("I", s.data) for s in make_seeds(decision, plan) if not s.key_bytes}
    rules = tuple(copied(rules_json(decision))["rules"])
    return MemoryBundle(copied(plan.to_json()), copied(classifier_json(decision)), rules, seeds)


def record(endpoint: Endpoint) -> EndpointRecord:
    """The endpoint as an endpoints file would give it to a node."""
    return EndpointRecord(
        namespace=endpoint.namespace,
        name=endpoint.name,
        labels=dict(endpoint.labels),
        namespace_labels=dict(endpoint.namespace_labels),
        ports=tuple(ContainerPort(p.name, p.protocol, p.number) for p in endpoint.ports),
        addresses={a.version: a for a in endpoint.addresses},
        service_account=endpoint.service_account,
        node=endpoint.node,
        host_network=endpoint.host_network,
        interface=None,
        mac=None,
        service_account_labels=dict(endpoint.service_account_labels),
        node_labels=dict(endpoint.its_node.labels) if endpoint.its_node else {},
    )


class MapEngine:
    """One node with one generation of tables."""

    def __init__(self, decision: DecisionIR, plan: LookupPlan) -> None:
        self.decision = decision
        self.bundle = memory_bundle(decision, plan)
        self.tables = PolicyTables(cast("Bundle", self.bundle))
        self.placed: dict[str, Placement] = {}

    def place(self, endpoint: Endpoint) -> None:
        """Place an endpoint, and write what that needs into the maps."""
        self.placed[endpoint.qualified_name] = self.tables.place(record(endpoint))
        self._write()

    def _write(self) -> None:
        for write in self.tables.drain_writes():
            words = self.bundle.seeds[write.map_name]
            at = write.index * len(write.words)
            words.extend([0] * (at + len(write.words) - len(words)))
            words[at : at + len(write.words)] = array("I", write.words)

    def decide(
        self, direction: Direction, subject: End, peer: End, flow: Flow
    ) -> tuple[bool, dict[str, Any]] | None:
        """(allowed, entry of rules.json); None for an end that is no endpoint."""
        if not isinstance(subject, Endpoint):
            return None
        row = self.placed[subject.qualified_name].row
        column = self._column(subject, peer, flow.family)
        cells = self.bundle.seeds["pc_cell_in" if direction is Direction.INGRESS else "pc_cell_eg"]
        at = 2 * (row * self.bundle.plan["columns"]["capacity"] + column)
        allowed = self._leaf(cells[at], flow.service.key) == 1
        rule = self._leaf(cells[at + 1], flow.service.key)
        rules = [*self.bundle.rules, *self.tables.new_rules()]
        return allowed, rules[rule]

    def _column(self, subject: Endpoint, peer: End, family: int) -> int:
        if isinstance(peer, Node):
            found = self._node_column(subject, peer, family)
            if found is not None:
                return found
            peer = peer.address(family)
        if isinstance(peer, Endpoint):
            placement = self.placed[peer.qualified_name]
            return placement.column4 if family == 4 else placement.column6
        atom = self.decision.atoms.classifier.addresses[family].atom_of(int(peer))
        return address_column_id(self.decision, family, atom)

    def _node_column(self, subject: Endpoint, node: Node, family: int) -> int | None:
        """The node's column on the node that the subject runs on; None where it is an address."""
        address = node.address(family)
        record = NodeRecord(node.name, dict(node.labels), node.addresses)
        placement = self.tables.place_node(record, address, node.name == subject.node)
        self._write()
        if placement is None:
            return None
        return placement.column4 if family == 4 else placement.column6

    def _leaf(self, diagram: int, key: int) -> int:
        first, count = self.bundle.seeds["pc_diagram"][2 * diagram : 2 * diagram + 2]
        steps = self.bundle.seeds["pc_step"]
        leaf = 0
        for at in range(first, first + count):
            if steps[2 * at] <= key:
                leaf = steps[2 * at + 1]
        return leaf
