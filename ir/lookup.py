# SPDX-License-Identifier: Apache-2.0
"""Read the Decision IR: place the ends of a flow, look the verdict up, name the decider.

`entry_of` puts a decider of the reference semantics in the same words, so that both compare with `==`.
"""

from typing import assert_never

from policyc.ir.atoms import Column
from policyc.ir.decision import DecisionIR, RuleEntry
from policyc.ir.errors import InternalError
from policyc.ir.policy import Direction
from policyc.ir.semantics import AllowedByDefault, DecidedByRule, DeniedByDefault, EndVerdict
from policyc.ir.tables import RESERVED_RULES
from policyc.ir.universe import End, Endpoint, Flow


def end_decision(
    decision: DecisionIR, direction: Direction, subject: End, peer: End, flow: Flow
) -> RuleEntry:
    """The entry of the rule that decides one end; an end that is no endpoint is not isolated."""
    if not isinstance(subject, Endpoint):
        return RESERVED_RULES[0]
    row = decision.atoms.row_of.get(subject.qualified_name)
    if row is None:
        row = decision.atoms.row_index[decision.atoms.classifier.row(subject)]
    column = decision.atoms.column_index[_column(decision, peer, flow.family)]
    action, rule = decision.decide(direction, row, column, flow.service.key)
    entry = decision.rules[rule]
    if entry.action.is_deny == bool(action):
        raise InternalError(f"the layers of the Decision IR disagree on {flow}")
    return entry


def _column(decision: DecisionIR, peer: End, family: int) -> Column:
    classifier = decision.atoms.classifier
    if not isinstance(peer, Endpoint):
        return classifier.address_column(peer)
    column = classifier.column(peer, family)
    if column is None:
        raise InternalError(f"{peer.qualified_name} has no IPv{family} address")
    return column


def entry_of(verdict: EndVerdict) -> RuleEntry:
    """What the reference semantics decided, as a rule entry."""
    match verdict.decider:
        case AllowedByDefault():
            return RESERVED_RULES[0]
        case DeniedByDefault(tier, direction, policies):
            return RuleEntry(
                "default-deny",
                verdict.action,
                tier,
                direction,
                tuple(p.qualified_name for p in policies),
                origins=tuple(p.origin for p in policies),
            )
        case DecidedByRule(tier, policy, direction, index) as by:
            name, origin = policy.qualified_name, by.rule.origin
            return RuleEntry("rule", verdict.action, tier, direction, (name,), index, (origin,))
        case _:
            assert_never(verdict.decider)
