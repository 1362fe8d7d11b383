# SPDX-License-Identifier: Apache-2.0
"""Read the Decision IR: place the ends of a flow, look up the verdict, name the deciding rule.

`entry_of` writes a decider of the reference semantics in the same form, so both compare with `==`.
"""

from dataclasses import replace
from typing import assert_never

from policyc.ir.atoms import Column
from policyc.ir.decision import DecisionIR, RuleEntry
from policyc.ir.errors import InternalError
from policyc.ir.policy import Action, Direction
from policyc.ir.semantics import (
    AllowedByDefault,
    DecidedByRule,
    DeniedByDefault,
    DeniedByHost,
    EffectKind,
    EndVerdict,
    as_seen,
)
from policyc.ir.tables import RESERVED_RULES
from policyc.ir.universe import End, Endpoint, Flow, Node, end_name


def end_decision(
    decision: DecisionIR, direction: Direction, subject: End, peer: End, flow: Flow
) -> RuleEntry:
    """The entry of the rule that decides one end; an end that is not an endpoint is not isolated."""
    if not isinstance(subject, Endpoint):
        return RESERVED_RULES[0]
    row = decision.atoms.row_of.get(subject.qualified_name)
    if row is None:
        row = decision.atoms.row_index[decision.atoms.classifier.row(subject)]
    column = decision.atoms.column_index[_column(decision, subject, as_seen(peer), flow.family)]
    action, rule = decision.decide(direction, row, column, flow.service.key)
    entry = decision.rules[rule]
    if entry.action.is_deny == bool(action):
        raise InternalError(f"the layers of the Decision IR disagree on {flow}")
    return entry


def _column(decision: DecisionIR, subject: Endpoint, peer: End, family: int) -> Column:
    classifier = decision.atoms.classifier
    column: Column | None
    match peer:
        case Endpoint():
            column = classifier.column(peer, family)
        case Node():
            is_local = bool(peer.name) and peer.name == subject.node
            column = classifier.node_column(peer, family, is_local)
        case _:
            column = classifier.address_column(peer)
    if column is None:
        raise InternalError(f"{end_name(peer)} has no IPv{family} address")
    return column


def entry_of(verdict: EndVerdict) -> RuleEntry:
    """The decision of the reference semantics as a rule entry, with its notes."""
    notes = tuple(
        _rule_entry(effect.by, effect.by.rule.action)
        for effect in verdict.effects
        if effect.kind is not EffectKind.LIMIT and effect.by != verdict.decider
    )
    return replace(_decided(verdict), notes=notes)


def _rule_entry(by: DecidedByRule, action: Action) -> RuleEntry:
    rule, name = by.rule, by.policy.title
    return RuleEntry(
        "rule",
        action,
        by.tier,
        by.direction,
        (name,),
        by.index,
        (rule.origin,),
        rule.limit,
        rule.log,
    )


def _decided(verdict: EndVerdict) -> RuleEntry:
    match verdict.decider:
        case AllowedByDefault():
            return RESERVED_RULES[0]
        case DeniedByDefault(tier, direction, policies):
            return RuleEntry(
                "default-deny",
                verdict.action,
                tier,
                direction,
                tuple(p.title for p in policies),
                origins=tuple(p.origin for p in policies),
            )
        case DecidedByRule() as by:
            return _rule_entry(by, by.rule.action)
        case DeniedByHost(host):
            raise InternalError(f"the host interface {host} is in no table")
        case _:
            assert_never(verdict.decider)
