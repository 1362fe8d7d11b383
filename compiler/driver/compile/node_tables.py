# SPDX-License-Identifier: Apache-2.0
"""Files of a bundle for the node beside the maps: classifier.json and rules.json.

The classifier places endpoints that appear later. The node folds the tier tables in it
(`runtime/policy/tables.py`) for signatures that appear later.
"""

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from policyc.ir.atoms import AddressAtoms, Column, EndpointColumn, NamedNumbers, NodeColumn, Row
from policyc.ir.bits import members
from policyc.ir.decision import (
    DecisionIR,
    PolicyTable,
    RuleEntry,
    TablePeer,
    TableRule,
    TableService,
    TierTable,
)
from policyc.ir.policy import Direction
from policyc.ir.selectors import (
    AllOf,
    AttributeTest,
    Condition,
    EndpointSelector,
    LabelSelector,
    Not,
    OneOf,
    Requirement,
)

CLASSIFIER_SCHEMA = "policyc.dev/classifier/v2"
RULES_SCHEMA = "policyc.dev/rules/v1"


def classifier_json(decision: DecisionIR) -> dict[str, Any]:
    """The classifier as JSON values."""
    vocabulary = decision.atoms.vocabulary
    addresses = decision.atoms.classifier.addresses
    return {
        "schema": CLASSIFIER_SCHEMA,
        "selectors": [_selector(s) for s in vocabulary.selectors],
        "subject_bits": members(vocabulary.subject_bits),
        "peer_bits": members(vocabulary.peer_bits),
        "own_blocks": members(vocabulary.own_blocks),
        "node_conditions": [_condition(c) for c in vocabulary.node_conditions],
        "reads_nodes": vocabulary.reads_nodes,
        "reads_locality": vocabulary.reads_locality,
        "named_ports": [
            {"name": p.name, "protocol": p.protocol.name, "kind": int(p.protocol.kind)}
            for p in vocabulary.named_ports
        ],
        "ingress_ports": members(vocabulary.ingress_ports),
        "egress_ports": members(vocabulary.egress_ports),
        "addresses": {str(family): _atoms(atoms) for family, atoms in addresses.items()},
        "rows": [_row(row) for row in decision.atoms.rows],
        "columns": [_column(column) for column in decision.atoms.columns],
        "tiers": [_tier(tier) for tier in decision.tables],
    }


def rules_json(decision: DecisionIR) -> dict[str, Any]:
    """rules.json: one entry per rule id."""
    ids = {entry: index for index, entry in enumerate(decision.rules)}
    return {
        "schema": RULES_SCHEMA,
        "rules": [
            rule_json(index, entry) | _notes_json(entry, ids)
            for index, entry in enumerate(decision.rules)
        ],
    }


def _notes_json(entry: RuleEntry, ids: Mapping[RuleEntry, int]) -> dict[str, Any]:
    """For an id with notes: its id without them, and the ids of the rules that made them."""
    if not entry.notes:
        return {}
    return {"of": ids[entry.without_notes], "notes": [ids[note] for note in entry.notes]}


def rule_json(index: int, entry: RuleEntry) -> dict[str, Any]:
    """One rule, or named default, as JSON values; with `limit` and `log` if it has them."""
    limit = entry.limit
    asked: dict[str, Any] = {}
    if limit:
        asked["limit"] = {"per_second": limit.per_second, "burst": limit.burst}
    if entry.log:
        asked["log"] = True
    return asked | {
        "id": index,
        "kind": entry.kind,
        "action": entry.action.value,
        "tier": entry.tier,
        "direction": entry.direction.value if entry.direction else None,
        "policies": list(entry.policies),
        "places": [
            {
                "path": origin.path,
                "file": origin.span.file,
                "line": origin.span.line,
                "column": origin.span.column,
            }
            for origin in entry.origins
        ],
    }


def _selector(selector: EndpointSelector) -> dict[str, Any]:
    return {
        "namespace": selector.namespace,
        "namespaceLabels": _requirements(selector.namespace_labels),
        "labels": _requirements(selector.labels),
        "condition": _condition(selector.condition),
    }


def _requirements(selector: LabelSelector) -> list[list[Any]]:
    return [_requirement(requirement) for requirement in selector.requirements]


def _requirement(requirement: Requirement) -> list[Any]:
    return [requirement.key, requirement.operator.value, list(requirement.values)]


def _condition(condition: Condition) -> list[Any]:
    """`[test, attribute, requirement]`, or `and`, `or`, `not` and the parts."""
    match condition:
        case AttributeTest(attribute, requirement):
            return ["test", attribute.value, _requirement(requirement)]
        case AllOf(parts):
            return ["and", *map(_condition, parts)]
        case OneOf(parts):
            return ["or", *map(_condition, parts)]
        case Not(part):
            return ["not", _condition(part)]
        case _:
            assert_never(condition)


def _atoms(atoms: AddressAtoms) -> dict[str, Any]:
    """Runs of addresses as hexadecimal strings: JSON numbers end at 2^53."""
    return {
        "starts": [f"{start:x}" for start in atoms.starts],
        "atoms": list(atoms.atoms),
        "blocks": [members(mask) for mask in atoms.blocks],
    }


def _named(named: NamedNumbers) -> list[list[Any]]:
    return [[index, sorted(numbers)] for index, numbers in named]


def _row(row: Row) -> dict[str, Any]:
    own = {"4": members(row.own4), "6": members(row.own6)}
    return {"bits": members(row.bits), "named": _named(row.named), "own": own}


def _column(column: Column) -> dict[str, Any]:
    out: dict[str, Any] = {"family": column.family, "atom": column.atom}
    if isinstance(column, EndpointColumn):
        out |= {"bits": members(column.bits), "named": _named(column.named)}
    if isinstance(column, NodeColumn):
        out |= {"node": members(column.conditions), "local": column.is_local}
    return out


def _tier(tier: TierTable) -> dict[str, Any]:
    return {
        "name": tier.name,
        "mode": tier.mode.value,
        "unmatched": tier.unmatched.value,
        "policies": [policy_json(policy) for policy in tier.policies],
    }


def policy_json(policy: PolicyTable) -> dict[str, Any]:
    """A policy over atoms as JSON values."""
    span = policy.origin.span
    return {
        "name": policy.name,
        "subject": policy.subject,
        "isolates": sorted(direction.value for direction in policy.isolates),
        "place": {
            "path": policy.origin.path,
            "file": span.file,
            "line": span.line,
            "column": span.column,
        },
        **{d.value: [_rule(rule) for rule in policy.rules(d)] for d in Direction},
    }


def _rule(rule: TableRule) -> dict[str, Any]:
    return {
        "rule": rule.rule,
        "action": rule.action.value,
        "peers": None if rule.peers is None else [_peer(peer) for peer in rule.peers],
        "services": None if rule.services is None else _services(rule.services),
        "own": None if rule.own is None else _peer(rule.own),
        "except_services": _services(rule.except_services),
    }


def _services(services: Iterable[TableService]) -> list[Any]:
    return [list(service) if isinstance(service, tuple) else service for service in services]


def _peer(peer: TablePeer) -> list[Any]:
    """`[kind, index]`, or `and`, `or`, `not` and the parts."""
    match peer:
        case AllOf(parts):
            return ["and", *map(_peer, parts)]
        case OneOf(parts):
            return ["or", *map(_peer, parts)]
        case Not(part):
            return ["not", _peer(part)]
        case _:
            return list(peer)
