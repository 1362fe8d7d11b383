# SPDX-License-Identifier: Apache-2.0
"""The question of one cell: do its diagrams say what the rules that match there say?

Rule ids are renamed, one to one, in the order in which they are met: both sides compare them and read
nothing else off them, so cells that differ in names alone ask one question.
"""

from policyc.ir.classes import dataclass
from policyc.ir.decision import ALLOW_LEAF, Diagram
from policyc.verifier.asked import AskedWords, Terms
from policyc.verifier.terms import Term
from policyc.verifier.z3_when_used import z3

RULE_BITS = 32
PASS, DENY, ALLOW = "pass", "deny", "allow"
NO_RULE = -1
NOT_ISOLATED = 0
"""The renamed id of *not isolated, allowed*: the first that is met."""

RuleWords = tuple[AskedWords, str, int]
"""What a matching rule asks, what it does, and its renamed id (NO_RULE for PASS)."""
TierWords = tuple[int, tuple[RuleWords, ...]]
"""A tier: the renamed id of its default deny (NO_RULE without one), its rules in deciding order."""


@dataclass(frozen=True, slots=True)
class CellQuestion:
    """The matching rules of each tier, and the cell's diagrams with renamed rules."""

    tiers: tuple[TierWords, ...]
    action: Diagram
    rule: Diagram

    def violated(self, terms: Terms) -> Term:
        """The cell and the policies disagree for some service, in the action or in the rule."""
        allows = terms.once(("action", self.action), lambda: _action_term(self.action, terms))
        decides = terms.once(("rule", self.rule), lambda: _rule_term(self.rule, terms))
        should_allow, should_decide = _policy_terms(self.tiers, terms)
        wrong = z3.Or(allows != should_allow, decides != should_decide)
        return z3.And(terms.is_service, wrong)


def _policy_terms(tiers: tuple[TierWords, ...], terms: Terms) -> tuple[Term, Term]:
    """(allowed, deciding rule) by the tiers, the last tier first."""
    if not tiers:
        return _bool(True, terms), _number(NOT_ISOLATED, terms)
    return terms.pair_once(("tiers", tiers), lambda: _tier_terms(tiers, terms))


def _tier_terms(tiers: tuple[TierWords, ...], terms: Terms) -> tuple[Term, Term]:
    """The first tier, and the others after it."""
    default, rules = tiers[0]
    after = _policy_terms(tiers[1:], terms)
    allowed, rule = after
    if default != NO_RULE:
        allowed, rule = _bool(False, terms), _number(default, terms)
    for asked, what, number in reversed(rules):
        then = after if what == PASS else (_bool(what == ALLOW, terms), _number(number, terms))
        holds = terms.asked(asked)
        allowed = z3.If(holds, then[0], allowed)
        rule = z3.If(holds, then[1], rule)
    return allowed, rule


def _action_term(diagram: Diagram, terms: Terms) -> Term:
    term = _bool(diagram[0][1] == ALLOW_LEAF, terms)
    for lo, leaf in diagram[1:]:
        term = z3.If(_at_least(lo, terms), _bool(leaf == ALLOW_LEAF, terms), term)
    return term


def _rule_term(diagram: Diagram, terms: Terms) -> Term:
    term = _number(diagram[0][1], terms)
    for lo, leaf in diagram[1:]:
        term = z3.If(_at_least(lo, terms), _number(leaf, terms), term)
    return term


def _at_least(lo: int, terms: Terms) -> Term:
    return terms.once(("from", lo), lambda: z3.UGE(terms.key, lo))


def _bool(value: bool, terms: Terms) -> Term:
    return terms.once(("bool", value), lambda: z3.BoolVal(value))


def _number(rule: int, terms: Terms) -> Term:
    return terms.once(("number", rule), lambda: z3.BitVecVal(rule, RULE_BITS))
