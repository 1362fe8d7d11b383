# SPDX-License-Identifier: Apache-2.0
"""From the Policy IR to rules over atoms: peers become selector bits and blocks, services keys.

Gives the tier tables and the rule entries; a rule's id is its index among the entries.
"""

from typing import assert_never

from policyc.ir.decision import PolicyTable, RuleEntry, TableRule, TierTable
from policyc.ir.policy import (
    Action,
    AddressPeer,
    AnyPeer,
    AnyService,
    Direction,
    EndpointPeer,
    EveryPort,
    NamedPort,
    Peer,
    Policy,
    PolicySet,
    PortRange,
    Ports,
    Rule,
)
from policyc.ir.services import kind_span
from policyc.ir.vocabulary import Vocabulary

RESERVED_RULES = (
    RuleEntry("default-allow", Action.ALLOW),
    RuleEntry("fail-closed", Action.DENY),
)


def lower_tables(
    policies: PolicySet, vocabulary: Vocabulary
) -> tuple[tuple[TierTable, ...], tuple[RuleEntry, ...]]:
    """The policy set over atoms, and an entry per rule, in canonical order."""
    entries = list(RESERVED_RULES)
    tiers = []
    for tier in policies.tiers:
        tables = tuple(_policy_table(tier.name, p, vocabulary, entries) for p in tier.policies)
        tiers.append(TierTable(tier.name, tier.mode, tier.unmatched, tables))
    return tuple(tiers), tuple(entries)


def _policy_table(
    tier: str, policy: Policy, vocabulary: Vocabulary, entries: list[RuleEntry]
) -> PolicyTable:
    def table_rules(direction: Direction) -> tuple[TableRule, ...]:
        out = []
        for index, rule in enumerate(policy.rules(direction)):
            out.append(_table_rule(len(entries), rule, vocabulary))
            name, origin = policy.qualified_name, rule.origin
            entries.append(
                RuleEntry("rule", rule.action, tier, direction, (name,), index, (origin,))
            )
        return tuple(out)

    return PolicyTable(
        name=policy.qualified_name,
        subject=vocabulary.bit_of[policy.subject],
        isolates=policy.isolates,
        ingress=table_rules(Direction.INGRESS),
        egress=table_rules(Direction.EGRESS),
        origin=policy.origin,
    )


def _table_rule(rule_id: int, rule: Rule, vocabulary: Vocabulary) -> TableRule:
    peers: tuple[tuple[str, int], ...] | None = None
    if not any(isinstance(peer, AnyPeer) for peer in rule.peers):
        peers = tuple(dict.fromkeys(_peer(peer, vocabulary) for peer in rule.peers))
    services: tuple[tuple[int, int] | int, ...] | None = None
    if not any(isinstance(ports, AnyService) for ports in rule.ports):
        services = tuple(dict.fromkeys(_service(ports, vocabulary) for ports in rule.ports))
    return TableRule(rule_id, rule.action, peers, services)


def _peer(peer: Peer, vocabulary: Vocabulary) -> tuple[str, int]:
    match peer:
        case EndpointPeer(selector):
            return "bit", vocabulary.bit_of[selector]
        case AddressPeer():
            return "block", vocabulary.block_of[peer]
        case AnyPeer():
            raise AssertionError("a rule with AnyPeer has no peer list")
        case _:
            assert_never(peer)


def _service(ports: Ports, vocabulary: Vocabulary) -> tuple[int, int] | int:
    match ports:
        case EveryPort(protocol):
            return kind_span(protocol.kind).spans[0]
        case PortRange(protocol, lo, hi):
            base = protocol.kind << 16
            return base | lo, base | hi
        case NamedPort():
            return vocabulary.port_of[ports]
        case AnyService():
            raise AssertionError("a rule with AnyService has no service list")
        case _:
            assert_never(ports)
