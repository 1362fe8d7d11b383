# SPDX-License-Identifier: Apache-2.0
"""Useless rules where some rules are opaque: those that change nothing under every reading.

An opaque rule itself is never called useless, because its matches are not known.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from policyc.compiler.driver.check.answers import Answers
from policyc.compiler.driver.compare.diff_opaque import with_policies
from policyc.compiler.driver.compile.compile import Read
from policyc.ir.bounds import RulePlace, is_understood, opaque_rules, upper_bound
from policyc.ir.policy import Direction, Policy, PolicySet
from policyc.ir.results.common import Evidence
from policyc.verifier.cluster.redundancy import Redundancy, Useless, Uselessness
from policyc.verifier.cluster.rows import RuleId
from policyc.verifier.symbolic.opaque import readings

Find = Callable[[Read], tuple[Answers, Redundancy]]
"""The useless rules if no rule is opaque, and the ends on which rules were tried."""
NOT_ASKED = "too many opaque rules: no rule was checked"
_ORDER = (Uselessness.DEAD, Uselessness.SHADOWED, Uselessness.REDUNDANT)


def useless_rules(read: Read, find: Find) -> tuple[Answers, Redundancy]:
    """The useless rules under every reading; rules were tried on the upper bound, too."""
    policies = read.policies.policies
    if is_understood(policies):
        return find(read)
    sets = readings(policies)
    most = upper_bound(policies)
    found, tried = find(with_policies(read, most))
    if sets is None:
        question = f"which rules are needed? {_count(policies)} opaque rules are too many to try"
        return Answers((), (), Evidence(NOT_ASKED), (question,)), tried
    answers = [(each, find(with_policies(read, each))[0]) for each in sets if each != most]
    if any(each == most for each in sets):
        answers.append((most, found))
    return _in_all(policies, answers), tried


def _count(policies: PolicySet) -> int:
    return sum(1 for _ in opaque_rules(policies))


def _in_all(policies: PolicySet, answers: list[tuple[PolicySet, Answers]]) -> Answers:
    opaque = {each.place for each in opaque_rules(policies)}
    useless: list[dict[RulePlace, Useless]] = []
    together: list[set[RulePlace]] = []
    for read, answer in answers:
        names = _Names(policies, read)
        useless.append({names.place(each.rule): names.useless(each) for each in answer.useless})
        # a rule without peers makes no difference
        together.append({names.place(each) for each in answer.together if each.rule.peers})
    kept = set(useless[0]).intersection(*useless) - opaque
    evidence = replace(
        max((each.evidence for _, each in answers), key=lambda evidence: evidence.queries),
        queries=sum(each.evidence.queries for _, each in answers),
    )
    at_once = together[0] if all(each == together[0] for each in together) else set()
    return Answers(
        tuple(_weakest(each[place] for each in useless) for place in sorted(kept)),
        tuple(useless[0][place].rule for place in sorted(at_once & kept))
        if at_once <= kept
        else (),
        evidence,
        tuple(dict.fromkeys(said for _, each in answers for said in each.undecided)),
    )


def _weakest(found: Iterable[Useless]) -> Useless:
    """The weakest claim of all readings: dead in one and redundant in another is redundant."""
    return max(found, key=lambda each: _ORDER.index(each.why))


class _Names:
    """Finds the rules of one reading among the original policies."""

    def __init__(self, given: PolicySet, read: PolicySet) -> None:
        self._given = given
        self._at: Mapping[int, tuple[int, int]] = {
            id(policy): (tier_at, at)
            for tier_at, tier in enumerate(read.tiers)
            for at, policy in enumerate(tier.policies)
        }

    def place(self, rule: RuleId) -> RulePlace:
        """The place of a rule of the reading."""
        return RulePlace(*self._at[id(rule.policy)], rule.direction is Direction.EGRESS, rule.index)

    def useless(self, found: Useless) -> Useless:
        """The same answer about the original policies."""
        return Useless(
            self._rule(found.rule),
            found.why,
            tuple(map(self._rule, found.instead)),
            tuple(map(self._policy, found.defaults)),
        )

    def _rule(self, rule: RuleId) -> RuleId:
        return replace(rule, policy=self._policy(rule.policy))

    def _policy(self, policy: Policy) -> Policy:
        tier, at = self._at[id(policy)]
        return self._given.tiers[tier].policies[at]
