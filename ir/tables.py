# SPDX-License-Identifier: Apache-2.0
"""From the Policy IR to rules over atoms: peers become selector bits and blocks, services become keys.

Output: the tier tables and the rule entries. A rule's id is its index among the entries.
"""

from typing import assert_never

from policyc.ir.decision import (
    LeafKind,
    PolicyTable,
    RuleEntry,
    TablePeer,
    TableRule,
    TableService,
    TierTable,
)
from policyc.ir.errors import InternalError
from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, NodePeer, Peer, Where
from policyc.ir.policy import (
    Action,
    AnyService,
    Direction,
    EveryPort,
    IcmpType,
    NamedPort,
    Policy,
    PolicySet,
    PortRange,
    Ports,
    ProtocolNumber,
    Rule,
)
from policyc.ir.selectors import NEVER, AllOf, Not, OneOf
from policyc.ir.services import ALL_SERVICES, Kind, kind_of_number, kind_span
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
    if policy.hosts != NEVER:
        raise InternalError(f"{policy.title} selects host interfaces, which no table does")

    def table_rules(direction: Direction) -> tuple[TableRule, ...]:
        out = []
        for index, rule in enumerate(policy.rules(direction)):
            out.append(_table_rule(len(entries), rule, vocabulary))
            name, origin = policy.title, rule.origin
            entries.append(
                RuleEntry(
                    "rule",
                    rule.action,
                    tier,
                    direction,
                    (name,),
                    index,
                    (origin,),
                    rule.limit,
                    rule.log,
                )
            )
        return tuple(out)

    return PolicyTable(
        name=policy.title,
        subject=vocabulary.bit_of[policy.subject],
        isolates=policy.isolates,
        ingress=table_rules(Direction.INGRESS),
        egress=table_rules(Direction.EGRESS),
        origin=policy.origin,
    )


def _table_rule(rule_id: int, rule: Rule, vocabulary: Vocabulary) -> TableRule:
    if rule.source_ports is not None:
        raise InternalError(f"{rule.origin.path} asks for what the tables cannot say")
    peers: tuple[TablePeer, ...] | None = None
    if not any(isinstance(peer, AnyPeer) for peer in rule.peers):
        peers = tuple(dict.fromkeys(_peer(peer, vocabulary) for peer in rule.peers))
    services: tuple[TableService, ...] | None = None
    if not any(isinstance(ports, AnyService) for ports in rule.ports):
        services = tuple(dict.fromkeys(_service(ports, vocabulary) for ports in rule.ports))
    return TableRule(
        rule_id,
        rule.action,
        peers,
        services,
        None if isinstance(rule.own, AnyPeer) else _peer(rule.own, vocabulary),
        tuple(dict.fromkeys(_service(ports, vocabulary) for ports in rule.except_ports)),
    )


_NODE_KIND: dict[Where, LeafKind] = {
    Where.ANYWHERE: "node",
    Where.LOCAL: "local",
    Where.REMOTE: "remote",
}


def _peer(peer: Peer, vocabulary: Vocabulary) -> TablePeer:
    match peer:
        case EndpointPeer(selector):
            return "bit", vocabulary.bit_of[selector]
        case AddressPeer():
            return "block", vocabulary.block_of[peer]
        case NodePeer(condition, where):
            return _NODE_KIND[where], vocabulary.node_of[condition]
        case AnyPeer():
            return AllOf(())
        case AllOf(parts):
            return AllOf(tuple(_peer(part, vocabulary) for part in parts))
        case OneOf(parts):
            return OneOf(tuple(_peer(part, vocabulary) for part in parts))
        case Not(part):
            return Not(_peer(part, vocabulary))
        case _:
            assert_never(peer)


def _service(ports: Ports, vocabulary: Vocabulary) -> TableService:
    match ports:
        case AnyService():
            return ALL_SERVICES.spans[0]
        case EveryPort(protocol):
            return kind_span(protocol.kind).spans[0]
        case PortRange(protocol, lo, hi):
            base = protocol.kind << 16
            return base | lo, base | hi
        case NamedPort():
            return vocabulary.port_of[ports]
        case IcmpType(kind, icmp_type, code):
            return _icmp_keys(kind, icmp_type, code)
        case ProtocolNumber(number):
            kind = kind_of_number(number)
            if kind is Kind.OTHER:
                return kind << 16 | number, kind << 16 | number
            return kind_span(kind).spans[0]
        case _:
            assert_never(ports)


def _icmp_keys(kind: Kind, icmp_type: int | None, code: int | None) -> tuple[int, int]:
    """Type is the upper byte of the value, code the lower one."""
    if icmp_type is None:
        return kind_span(kind).spans[0]
    first = kind << 16 | icmp_type << 8
    return (first, first | 0xFF) if code is None else (first | code, first | code)
