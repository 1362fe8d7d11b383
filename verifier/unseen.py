# SPDX-License-Identifier: Apache-2.0
"""Lemma 4: the per-policy tables mean their policies, for every signature that could exist.

The node folds these tables for endpoints nobody has seen. So each rule of the tables must match what its
rule of the Policy IR matches, with every selector, block and named port free, and the frame around the
rules (tiers, modes, order, subjects, isolation) must be the same.
"""

from collections.abc import Iterator
from typing import assert_never

import z3

from policyc.ir.decision import DecisionIR, PolicyTable, TableRule, TierTable
from policyc.ir.policy import (
    AddressPeer,
    AnyPeer,
    Direction,
    EndpointPeer,
    Peer,
    Policy,
    PolicySet,
    Rule,
    Tier,
)
from policyc.ir.vocabulary import Vocabulary
from policyc.verifier.outcome import Broken, Obligation
from policyc.verifier.terms import Term, asks_for, in_range, is_kind, is_service, service_key

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
    name = policy.qualified_name
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
            question = (rule.peers, rule.ports, its_table.peers, its_table.services)
            if question not in asked:
                asked.add(question)
                what = f"{name} {rule.origin.path} matches other flows in the tables"
                violated = _violated(rule, its_table, vocabulary)
                yield Obligation(violated, Broken(LEMMA, what, direction))


def _violated(rule: Rule, table: TableRule, vocabulary: Vocabulary) -> Term:
    key = service_key()
    by_policy = z3.And(
        z3.Or(*(_peer(peer, vocabulary) for peer in rule.peers)),
        z3.Or(*(asks_for(key, p, lambda n: _declared(vocabulary.port_of[n])) for p in rule.ports)),
    )
    by_table = z3.And(_table_peers(table), _table_services(table, vocabulary, key))
    return z3.And(is_service(key), z3.Xor(by_policy, by_table))


def _peer(peer: Peer, vocabulary: Vocabulary) -> Term:
    match peer:
        case AnyPeer():
            return z3.BoolVal(True)
        case EndpointPeer(selector):
            return _free("bit", vocabulary.bit_of[selector])
        case AddressPeer():
            return _free("block", vocabulary.block_of[peer])
        case _:
            assert_never(peer)


def _table_peers(table: TableRule) -> Term:
    if table.peers is None:
        return z3.BoolVal(True)
    return z3.Or(*(_free(kind, index) for kind, index in table.peers))


def _table_services(table: TableRule, vocabulary: Vocabulary, key: Term) -> Term:
    if table.services is None:
        return z3.BoolVal(True)
    terms = []
    for service in table.services:
        if isinstance(service, tuple):
            terms.append(in_range(key, *service))
        else:
            protocol = vocabulary.named_ports[service].protocol
            terms.append(z3.And(is_kind(key, protocol), _declared(service)))
    return z3.Or(*terms)


def _free(kind: str, index: int) -> Term:
    """A selector bit or a block that holds or does not: any pod, any address."""
    return z3.Bool(f"{kind}{index}")


def _declared(index: int) -> Term:
    """The destination declares the key's number under named port `index`, or does not."""
    return z3.Bool(f"named{index}")
