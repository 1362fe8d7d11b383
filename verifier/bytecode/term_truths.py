# SPDX-License-Identifier: Apache-2.0
"""Simplification under a conjunction: each part is true inside the others. No solver is used."""

from collections.abc import Callable
from typing import Any

from policyc.verifier.bytecode.nodes import ALL, EQ, NOT, VARIABLE, Node
from policyc.verifier.bytecode.substitution import Substitution
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Truth

ROUNDS = 4
"""The maximal number of rounds in which facts of one part simplify the others; more rarely helps."""


def reduced(domain: TermDomain, truth: Truth) -> Truth:
    """A truth that is satisfiable if this one is, and implied by it: smaller, as its parts are used."""
    for _ in range(ROUNDS):
        before = truth
        if not isinstance(truth, Node) or truth.op is not ALL:
            return truth
        truth = _told(domain, truth, _is_value)
        if isinstance(truth, Node) and truth.op is ALL:
            truth = _told(domain, truth, _is_simple)
        if truth is before:
            return truth
    return truth


def _told(domain: TermDomain, truth: Node, tells: Callable[[Node], bool]) -> Truth:
    """A conjunction in which some parts simplify the others."""
    believed = [each for each in truth.args if tells(each)]
    if not believed:
        return truth
    now = Substitution(domain, _said_by(domain, believed))
    return domain.all_of([*believed, *(now(each) for each in truth.args if not tells(each))])


def _said_by(domain: TermDomain, parts: list[Node]) -> dict[Node, Any]:
    """The replacements of nodes under these truths."""
    found: dict[Node, Any] = {}
    for part in parts:
        found[part] = True
        found[domain.contrary(part)] = False
        if _is_value(part):
            found[part.args[0]] = part.args[1]
    return found


def _is_value(truth: Node) -> bool:
    """Whether the truth says that a variable is a number."""
    is_known = truth.op is EQ and type(truth.args[1]) is int
    return is_known and truth.args[0].op is VARIABLE


def _is_simple(truth: Node) -> bool:
    """Whether the truth is not a negated conjunction."""
    return not (truth.op is NOT and truth.args[0].op is ALL)
