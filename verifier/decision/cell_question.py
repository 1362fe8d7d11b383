# SPDX-License-Identifier: Apache-2.0
"""The question of one cell: do its diagrams agree with the rules that match there?

Rule ids are renamed, one to one, in order of first use. Both sides only compare ids, so cells that
differ in names alone are one question.
"""

from collections.abc import Callable

from policyc.ir.decision import ALLOW_LEAF, Diagram
from policyc.ir.fast_dataclass import dataclass
from policyc.verifier.decision.service_questions import (
    AskedWords,
    Terms,
)
from policyc.verifier.smt.lazy_z3 import z3
from policyc.verifier.smt.terms import Term

RULE_BITS = 32
PASS, DENY, ALLOW, NOTE = "pass", "deny", "allow", "note"
NO_RULE = -1
NOT_ISOLATED = 0
"""The renamed id of *not isolated, allowed*: the first id in the order of use."""

RuleWords = tuple[AskedWords, str, int]
"""The services of a matching rule, its action, and its renamed id (NO_RULE for PASS)."""
TierWords = tuple[int, tuple[RuleWords, ...]]
"""A tier: the renamed id of its default deny (NO_RULE without one), its rules in evaluation order."""


@dataclass(frozen=True, slots=True)
class CellQuestion:
    """The matching rules of each tier, and the cell's diagrams with renamed rules."""

    tiers: tuple[TierWords, ...]
    action: Diagram
    rule: Diagram

    def violated(self, terms: Terms) -> Term:
        """The cell and the policies disagree for some service, in the action or in the rule."""
        allows, decides = _action_term(self.action, terms), _rule_term(self.rule, terms)
        should_allow, should_decide = _policy_terms(self.tiers, terms)
        wrong = z3.Or(allows != should_allow, decides != should_decide)
        return z3.And(terms.is_service, wrong)


def _policy_terms(tiers: tuple[TierWords, ...], terms: Terms) -> tuple[Term, Term]:
    """(allowed, deciding rule) by the tiers, the last tier first."""
    if not tiers:
        return _says(True, NOT_ISOLATED, terms)
    return terms.pair_once(("tiers", tiers), lambda: _tier_terms(tiers, terms))


def _tier_terms(tiers: tuple[TierWords, ...], terms: Terms) -> tuple[Term, Term]:
    """The first tier, and the others after it."""
    default, rules = tiers[0]
    after = _policy_terms(tiers[1:], terms)
    rest = after if default == NO_RULE else _says(False, default, terms)
    for words in reversed(rules):
        rest = _rule_terms(words, rest, after, terms)
    return rest


def _rule_terms(
    words: RuleWords, rest: tuple[Term, Term], after: tuple[Term, Term], terms: Terms
) -> tuple[Term, Term]:
    """The rule's decision where it matches, else the decision of the rest of its tier.

    Pairs are kept as long as `terms`, so their ids name them: cells with the same last rules share
    terms.
    """

    def made() -> tuple[Term, Term]:
        asked, what, number = words
        then = after if what == PASS else _says(what == ALLOW, number, terms)
        holds = terms.asked(asked)
        return z3.If(holds, then[0], rest[0]), z3.If(holds, then[1], rest[1])

    return terms.pair_once(("rule", words, id(rest), id(after)), made)


def _says(allows: bool, rule: int, terms: Terms) -> tuple[Term, Term]:
    return terms.pair_once(
        ("says", allows, rule), lambda: (_bool(allows, terms), _number(rule, terms))
    )


def _action_term(diagram: Diagram, terms: Terms) -> Term:
    return _searched("action", diagram, terms, lambda leaf: _bool(leaf == ALLOW_LEAF, terms))


def _rule_term(diagram: Diagram, terms: Terms) -> Term:
    return _searched("rule", diagram, terms, lambda leaf: _number(leaf, terms))


def _searched(kind: str, diagram: Diagram, terms: Terms, leaf_term: Callable[[int], Term]) -> Term:
    """The leaf of the last step at or below the key. A search takes Z3 half as long as a chain."""

    def made() -> Term:
        if len(diagram) == 1:
            return leaf_term(diagram[0][1])
        middle = len(diagram) // 2
        below = _searched(kind, diagram[:middle], terms, leaf_term)
        above = _searched(kind, diagram[middle:], terms, leaf_term)
        return z3.If(_at_least(diagram[middle][0], terms), above, below)

    return terms.once((kind, diagram), made)


def _at_least(lo: int, terms: Terms) -> Term:
    return terms.once(("from", lo), lambda: z3.UGE(terms.key, lo))


def _bool(value: bool, terms: Terms) -> Term:
    return terms.once(("bool", value), lambda: z3.BoolVal(value))


def _number(rule: int, terms: Terms) -> Term:
    return terms.once(("number", rule), lambda: z3.BitVecVal(rule, RULE_BITS))
