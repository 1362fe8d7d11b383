# SPDX-License-Identifier: Apache-2.0
"""The findings whose remedy is certain: rules, policies and comments that may go."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from policyc.compiler.driver.check.check import Checked
from policyc.compiler.driver.check.codes import (
    ALLOWS_ALL,
    POLICY_CHANGES_NOTHING,
    UNUSED_IGNORE,
)
from policyc.compiler.driver.check.findings import CODES, place_of
from policyc.ir.policy import Policy
from policyc.ir.results.common import Finding, Place
from policyc.ir.results.places import place_of_policy
from policyc.ir.spans import Span
from policyc.verifier.cluster.rows import RuleId

_RULE_CODES = frozenset(code.name for code in CODES.values())


@dataclass(frozen=True, slots=True)
class Fixable:
    """What the report names and what may go together, without suppressed findings and those off."""

    rules: tuple[RuleId, ...]
    policies: tuple[Policy, ...]
    comments: tuple[Finding, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to fix."""
        return not (self.rules or self.policies or self.comments)

    @property
    def spans(self) -> Iterator[Span]:
        """The places of all of them."""
        yield from (each.rule.origin.span for each in self.rules)
        yield from (each.origin.span for each in self.policies)
        yield from (each.place.span for each in self.comments)

    def places(self) -> Iterator[Place]:
        """The same, as the report names them."""
        yield from map(place_of, self.rules)
        yield from map(place_of_policy, self.policies)
        yield from (each.place for each in self.comments)


def fixable(checked: Checked) -> Fixable:
    """The fixes that the findings of a check ask for."""
    findings = checked.result.findings
    rules = _places(findings, _RULE_CODES)
    policies = _places(findings, {POLICY_CHANGES_NOTHING.name})
    return Fixable(
        tuple(each for each in checked.together if place_of(each) in rules),
        tuple(each for each in checked.deletable if place_of_policy(each) in policies),
        tuple(each for each in findings if each.code == UNUSED_IGNORE.name),
    )


def beside_mistakes(checked: Checked, fixes: Fixable) -> tuple[RuleId, ...]:
    """Rules that change nothing because of another rule that is probably a mistake (PC2006).

    Without them the mistake would look as if it were meant.
    """
    findings = checked.result.findings
    said = {note.span for each in findings if each.code == ALLOWS_ALL.name for note in each.notes}
    return tuple(each for each in fixes.rules if each.rule.origin.span in said)


def _places(findings: Iterable[Finding], codes: Iterable[str]) -> set[Place]:
    return {each.place for each in findings if each.code in codes}
