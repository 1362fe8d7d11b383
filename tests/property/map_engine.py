# SPDX-License-Identifier: Apache-2.0
"""What a node would answer: the seeds, the node's own placements and writes, read as the plan says.

The same road as the datapath's, in Python: endpoints are placed by `runtime/policy/tables.py` from the
bundle's JSON, unknown addresses by the prefix table, diagrams by search in the steps.
"""

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from policyc.backends.ebpf_c.buckets import FILLED, bucket_of
from policyc.backends.ebpf_c.seeds import make_seeds
from policyc.compiler.driver.compile.node_tables import (
    classifier_json,
    rules_json,
)
from policyc.ir.decision import FAIL_CLOSED_RULE, NOT_ISOLATED_RULE, DecisionIR
from policyc.ir.effects import EffectBits
from policyc.ir.plan import CellLayout, DirectionPlan, LookupPlan
from policyc.ir.policy import Direction
from policyc.ir.trees import (
    ALLOW,
    ID_MASK,
    LEAF,
    NOTHING,
    search_service,
)
from policyc.ir.universe import End, Endpoint, Flow, Node
from policyc.runtime.bundle.bundle import (
    Bundle,
    MapSpec,
)
from policyc.runtime.endpoints.endpoints import (
    ContainerPort,
    EndpointRecord,
    NodeRecord,
)
from policyc.runtime.endpoints.placement import Placement
from policyc.runtime.policy.tables import PolicyTables


@dataclass
class MemoryBundle:
    """The parts of a bundle that the node's tables read, after a trip through JSON."""

    plan: dict[str, Any]
    classifier: dict[str, Any]
    rules: tuple[dict[str, Any], ...]
    seeds: dict[str, "array[int]"]
    node: str = ""

    @property
    def maps(self) -> tuple[MapSpec, ...]:
        return tuple(MapSpec(name, "", "", 0, None, 0, 0) for name in self.seeds)

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
        self.plan = plan
        self.bundle = memory_bundle(decision, plan)
        self.tables = PolicyTables(cast("Bundle", self.bundle))
        self.placed: dict[str, Placement] = {}

    def place(self, endpoint: Endpoint) -> None:
        """Place an endpoint, and write its entries into the maps."""
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
        plan = self.plan.directions[direction]
        rules = [*self.bundle.rules, *self.tables.new_rules()]
        if not plan.is_used:
            return True, rules[NOT_ISOLATED_RULE]
        row = self.placed[subject.qualified_name][f"{direction.value}_row"]
        column = self._column(plan, subject, peer, flow.family)
        cell = self._cell(plan, row, column)
        word = search_service(self._nodes(), cell, flow.service.key, self.rounds)
        if not word & LEAF:
            return False, rules[FAIL_CLOSED_RULE]
        return bool(word & ALLOW), rules[word & ID_MASK]

    def is_logged(self, rule: int) -> bool:
        """Whether the program writes an event for decisions of this id."""
        words = self.bundle.seeds.get("pc_effects", array("I"))
        return bool(words[6 * rule] & EffectBits.LOG) if 6 * rule < len(words) else False

    @property
    def rounds(self) -> int:
        """Rounds of the search in a diagram."""
        return self.plan.rounds

    def _cell(self, plan: DirectionPlan, row: int, column: int) -> int:
        if not row or not column:
            return NOTHING
        if plan.cells is CellLayout.DENSE:
            words = self.bundle.seeds[f"pc_cells_{plan.short}"]
            at = row * plan.columns.capacity + column
            return words[at] if at < len(words) else NOTHING
        buckets = self.bundle.seeds[f"pc_buckets_{plan.short}"]
        for at in bucket_of(row, column, plan.buckets):
            bucket = buckets[16 * at : 16 * at + 16]
            for slot in range(4):
                if list(bucket[2 * slot : 2 * slot + 2]) == [column, row]:
                    return bucket[8 + slot]
            if bucket[12] != FILLED:
                return NOTHING
        usual = self.bundle.seeds[f"pc_usual_{plan.short}"]
        return usual[row] if row < len(usual) else NOTHING

    def _nodes(self) -> list[tuple[int, ...]]:
        words = self.bundle.seeds["pc_nodes"]
        return [tuple(words[at : at + 16]) for at in range(0, len(words), 16)]

    def _column(self, plan: DirectionPlan, subject: Endpoint, peer: End, family: int) -> int:
        field = plan.column_fields[family]
        if isinstance(peer, Node):
            found = self._node_place(subject, peer, family)
            if found is not None:
                return found[field]
            peer = peer.address(family)
        if isinstance(peer, Endpoint):
            return self.placed[peer.qualified_name][field]
        return self.plan.address_column(plan.direction, family, int(peer))

    def _node_place(self, subject: Endpoint, node: Node, family: int) -> Placement | None:
        """The node's place on the node that the subject runs on; None where it is an address."""
        address = node.address(family)
        record = NodeRecord(node.name, dict(node.labels), node.addresses)
        placement = self.tables.place_node(record, address, node.name == subject.node)
        self._write()
        return placement
