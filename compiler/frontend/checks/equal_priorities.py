# SPDX-License-Identifier: Apache-2.0
"""Policies of policy.networking.k8s.io that share a tier and a priority (semantics B31).

The API does not define which of them is evaluated first. That is an error if two of their rules may
match the same flow with different actions. Otherwise it is only a warning.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from policyc.compiler.frontend.admin import codes
from policyc.compiler.frontend.checks.overlap import (
    endpoints_overlap,
    rules_overlap,
)
from policyc.compiler.frontend.lowered import AdminSlot, BaselineSlot, Lowered
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.policy import Direction, EndpointSelector, Operator, Policy, Rule

MAX_NAMED = 5
"""The number of policies that a finding about a whole group names."""


def check_priorities(lowered: Iterable[Lowered], report: Report) -> None:
    """Report policies whose order is not defined: conflicts one by one, else each group once."""
    groups: dict[AdminSlot | BaselineSlot, list[Policy]] = {}
    for item in lowered:
        if isinstance(item.slot, AdminSlot | BaselineSlot) and not item.is_staged:
            groups.setdefault(item.slot, []).append(item.policy)
    for slot, policies in groups.items():
        if len(policies) > 1:
            report.findings += list(_conflicts(policies, slot.priority)) or [
                _shared(policies, slot.priority)
            ]


def _conflicts(policies: Sequence[Policy], priority: int) -> Iterator[Diagnostic]:
    """For each policy the first of the earlier ones that it may contradict."""
    buckets = _Buckets(policies)
    for at, policy in enumerate(policies):
        for other in (policies[earlier] for earlier in buckets.near(policy) if earlier < at):
            pair = next(_contradictions(policy, other), None)
            if pair is not None:
                yield _conflict(policy, other, pair, priority)
                break


class _Buckets:
    """Finds policies that may have a subject in common, by the label that most of them require.

    Thousands of policies of one priority are compared in seconds, because most pairs are skipped.
    """

    def __init__(self, policies: Sequence[Policy]) -> None:
        wanted = Counter(key for policy in policies for key in _listed(policy.subject))
        self._key = wanted.most_common(1)[0][0] if wanted else ("", "")
        self._all = range(len(policies))
        self._without: list[int] = []
        self._with: dict[str, list[int]] = {}
        for at, policy in enumerate(policies):
            values = _listed(policy.subject).get(self._key)
            if values is None:
                self._without.append(at)
            for value in values or ():
                self._with.setdefault(value, []).append(at)

    def near(self, policy: Policy) -> Iterable[int]:
        """Positions of policies that may share a subject with this one, ascending."""
        values = _listed(policy.subject).get(self._key)
        if values is None:
            return self._all
        found = (at for value in values for at in self._with.get(value, ()))
        return sorted({*self._without, *found})


def _listed(subject: EndpointSelector) -> dict[tuple[str, str], tuple[str, ...]]:
    """The labels that a subject must have, with the values that it may have there."""
    sides = (("namespace", subject.namespace_labels), ("pod", subject.labels))
    return {
        (side, requirement.key): requirement.values
        for side, selector in sides
        for requirement in selector.requirements
        if requirement.operator is Operator.IN
    }


def _contradictions(one: Policy, other: Policy) -> Iterator[tuple[Rule, Rule]]:
    """Pairs of rules of one direction with different actions that are not shown to be disjoint."""
    if not endpoints_overlap(one.subject, other.subject):
        return
    for direction in Direction:
        mine, theirs = one.rules(direction), other.rules(direction)
        if len({rule.action for rule in (*mine, *theirs)}) < 2:
            continue
        for rule in mine:
            for against in theirs:
                if rule.action is not against.action and rules_overlap(rule, against):
                    yield rule, against


def _conflict(policy: Policy, other: Policy, pair: tuple[Rule, Rule], priority: int) -> Diagnostic:
    mine, theirs = pair
    found = codes.PRIORITY_CONFLICT.at(
        policy.origin.span,
        "spec.priority",
        policy=policy.title,
        other=other.title,
        priority=priority,
        rule=mine.origin.path,
        other_rule=theirs.origin.path,
    )
    found = found.note(mine.origin.span, f"{mine.action.value} here")
    found = found.note(theirs.origin.span, f"{theirs.action.value} here")
    return found.help("give one of the two another priority")


def _shared(policies: Sequence[Policy], priority: int) -> Diagnostic:
    """One warning for a group: there is no contradiction, but a change could create one."""
    names = ", ".join(policy.title for policy in policies[:MAX_NAMED])
    more = len(policies) - MAX_NAMED
    found = codes.PRIORITY_SHARED.at(
        policies[1].origin.span,
        "spec.priority",
        policies=names if more <= 0 else f"{names} and {more} more",
        priority=priority,
    )
    found = found.note(policies[0].origin.span, f"{policies[0].title} is here")
    return found.help("no two of their rules contradict each other; a change could make them")
