# SPDX-License-Identifier: Apache-2.0
"""Lemma 4: the per-policy tables mean their policies, for every signature that could exist.

The node folds these tables for endpoints nobody has seen. So each rule of the tables must match what its
rule of the Policy IR matches, with every selector, block and named port free, and the frame around the
rules (tiers, modes, order, subjects, isolation) must be the same.
"""

from collections.abc import Iterator
from typing import assert_never

import z3

from policyc.ir.decision import (
    DecisionIR,
    PolicyTable,
    TablePeer,
    TableRule,
    TableService,
    TierTable,
)
from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, NodePeer, Peer, Where
from policyc.ir.policy import Direction, Policy, PolicySet, Rule, Tier
from policyc.ir.selectors import AllOf, Not, OneOf
from policyc.ir.vocabulary import Vocabulary
from policyc.verifier.outcome import Broken, Obligation
from policyc.verifier.terms import Term, asked_by, in_range, is_kind, is_service, service_key

LEMMA = "unseen"


def unseen_obligations(policies: PolicySet, decision: DecisionIR) -> Iterator[Obligation | Broken]:
    """An obligation per rule, and a fault for each frame that differs."""
    if len(policies.tiers) != len(decision.tables):
        yield Broken(LEMMA, "the tables have other tiers than the policies")
        return
    asked: set[object] = set()
    for tier, table in zip(policies.tiers, decision.tables, strict=True):
        if _tier_frame(tier) != _tier_frame(table) or len(tier.policies) != len(table.policies):
            yield Broken(LEMMA, f"tier {tier.name} has another frame")
            return
        for policy, its_table in zip(tier.policies, table.policies, strict=True):
            yield from _policy(policy, its_table, decision, asked)


def _tier_frame(tier: Tier | TierTable) -> tuple[object, ...]:
    return tier.name, tier.mode, tier.unmatched


def _policy(
    policy: Policy, table: PolicyTable, decision: DecisionIR, asked: set[object]
) -> Iterator[Obligation | Broken]:
    vocabulary = decision.atoms.vocabulary
    name = policy.title
    frame = (name, vocabulary.bit_of[policy.subject], policy.isolates, policy.origin)
    if frame != (table.name, table.subject, table.isolates, table.origin):
        yield Broken(LEMMA, f"{name} has another subject, isolation or place in the tables")
    for direction in Direction:
        rules, theirs = policy.rules(direction), table.rules(direction)
        if len(rules) != len(theirs):
            yield Broken(LEMMA, f"{name} has another number of {direction.value} rules")
            return
        for rule, its_table in zip(rules, theirs, strict=True):
            if rule.action is not its_table.action:
                yield Broken(LEMMA, f"{name} {rule.origin.path} has another action")
            asked_of_rule = (rule.peers, rule.ports, rule.own, rule.except_ports)
            its = (its_table.peers, its_table.services, its_table.own, its_table.except_services)
            question = (asked_of_rule, its)
            if question not in asked:
                asked.add(question)
                what = f"{name} {rule.origin.path} matches other flows in the tables"
                violated = _violated(rule, its_table, vocabulary)
                yield Obligation(violated, Broken(LEMMA, what, direction))


def _violated(rule: Rule, table: TableRule, vocabulary: Vocabulary) -> Term:
    key = service_key()
    by_policy = z3.And(
        _peer(rule.own, vocabulary, OWN),
        z3.Or(*(_peer(peer, vocabulary, OTHER) for peer in rule.peers)),
        asked_by(key, rule, lambda port: _declared(vocabulary.port_of[port])),
    )
    by_table = z3.And(_table_peers(table), _table_services(table, vocabulary, key))
    return z3.And(is_service(key), z3.Xor(by_policy, by_table))


OWN, OTHER = "own", "other"
"""The two sides of a flow, as a rule sees them: each has selector bits and blocks of its own."""


def _peer(peer: Peer, vocabulary: Vocabulary, side: str) -> Term:
    match peer:
        case AnyPeer():
            return z3.BoolVal(True)
        case EndpointPeer(selector):
            return _free(side, "bit", vocabulary.bit_of[selector])
        case AddressPeer():
            return _free(side, "block", vocabulary.block_of[peer])
        case NodePeer(condition, where):
            holds = _node(side, vocabulary.node_of[condition])
            return z3.And(holds, _is_there(where))
        case AllOf(parts):
            return z3.And(*(_peer(part, vocabulary, side) for part in parts))
        case OneOf(parts):
            return z3.Or(*(_peer(part, vocabulary, side) for part in parts))
        case Not(part):
            return z3.Not(_peer(part, vocabulary, side))
        case _:
            assert_never(peer)


def _table_peers(table: TableRule) -> Term:
    own = z3.BoolVal(True) if table.own is None else _table_peer(table.own, OWN)
    if table.peers is None:
        return own
    return z3.And(own, z3.Or(*(_table_peer(peer, OTHER) for peer in table.peers)))


_WHERE = {"node": Where.ANYWHERE, "local": Where.LOCAL, "remote": Where.REMOTE}


def _table_peer(peer: TablePeer, side: str) -> Term:
    match peer:
        case AllOf(parts):
            return z3.And(*(_table_peer(part, side) for part in parts))
        case OneOf(parts):
            return z3.Or(*(_table_peer(part, side) for part in parts))
        case Not(part):
            return z3.Not(_table_peer(part, side))
        case (kind, index):
            if kind in _WHERE:
                return z3.And(_node(side, index), _is_there(_WHERE[kind]))
            return _free(side, kind, index)
        case _:
            assert_never(peer)


def _table_services(table: TableRule, vocabulary: Vocabulary, key: Term) -> Term:
    excepted = [z3.Not(_table_service(s, vocabulary, key)) for s in table.except_services]
    if table.services is None:
        return z3.And(*excepted)
    return z3.And(
        z3.Or(*(_table_service(service, vocabulary, key) for service in table.services)), *excepted
    )


def _table_service(service: TableService, vocabulary: Vocabulary, key: Term) -> Term:
    if isinstance(service, tuple):
        return in_range(key, *service)
    protocol = vocabulary.named_ports[service].protocol
    return z3.And(is_kind(key, protocol), _declared(service))


def _free(side: str, kind: str, index: int) -> Term:
    """A selector bit or a block that holds or does not: any pod, any address."""
    return z3.Bool(f"{side} {kind}{index}")


def _node(side: str, index: int) -> Term:
    """The other side is a node of which the condition holds; the own side is an endpoint, and none."""
    return z3.BoolVal(False) if side == OWN else _free(side, "node", index)


def _is_there(where: Where) -> Term:
    """The node is where a peer wants it; whether it is the subject's own is free."""
    is_local = z3.Bool("the subject's own node")
    match where:
        case Where.ANYWHERE:
            return z3.BoolVal(True)
        case Where.LOCAL:
            return is_local
        case Where.REMOTE:
            return z3.Not(is_local)
        case _:
            assert_never(where)


def _declared(index: int) -> Term:
    """The destination declares the key's number under named port `index`, or does not."""
    return z3.Bool(f"named{index}")
