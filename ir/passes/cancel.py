# SPDX-License-Identifier: Apache-2.0
"""Cancel what two policy sets have in common: only ends that a changed policy selects can differ.

A syntactic lemma. Take the policies that only one side has, and an end that none of them selects. Both
sides apply the same rules to it, in the same order, under the same defaults, so every verdict is the
same.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import ClassVar

from policyc.ir.diagnostics import Report
from policyc.ir.passes.ir_pass import IrPass, Keeps
from policyc.ir.policy import NEVER, Action, Policy, PolicySet, Tier, TierMode
from policyc.ir.selectors import EndpointSelector, LabelSelector, Operator, Requirement

_MOST_ALIGNED = 2000
"""Longer sequences of ordered policies are not aligned: all of them count as changed."""


@dataclass(frozen=True)
class Cancel(IrPass):
    """What cannot differ from the other policies, taken away: policies of subjects without a change."""

    name: ClassVar[str] = "cancel"
    keeps: ClassVar[Keeps] = Keeps.CHANGES

    other: PolicySet

    def run(self, policies: PolicySet, report: Report) -> PolicySet:
        """The policies of every end that a changed policy may select."""
        subjects = Subjects.of(changed_policies(policies, self.other))
        return restricted(policies, subjects.may_share)


def changed_policies(before: PolicySet, after: PolicySet) -> tuple[Policy, ...]:
    """The policies that only one side has, or has at another position where order matters."""
    olds = [tier for tier in before.tiers if tier.policies]
    news = [tier for tier in after.tiers if tier.policies]
    found: list[Policy] = []
    pairs = aligned([skeleton(t) for t in olds], [skeleton(t) for t in news])
    matched_old, matched_new = {i for i, _ in pairs}, {j for _, j in pairs}
    found += (p for i, t in enumerate(olds) if i not in matched_old for p in t.policies)
    found += (p for j, t in enumerate(news) if j not in matched_new for p in t.policies)
    for i, j in pairs:
        found += _changed_in_tier(olds[i], news[j])
    return tuple(found)


def skeleton(tier: Tier) -> Hashable:
    """The settings of a tier without its policies."""
    return tier.name, tier.mode, tier.unmatched


def _changed_in_tier(old: Tier, new: Tier) -> Iterator[Policy]:
    ours, theirs = ([_content(p) for p in tier.policies] for tier in (old, new))
    if ours == theirs:
        return
    if is_unordered(old) and is_unordered(new):
        both = Counter(ours) & Counter(theirs)
        for contents, tier in ((ours, old), (theirs, new)):
            left = Counter(both)
            for content, policy in zip(contents, tier.policies, strict=True):
                if left[content] > 0:
                    left[content] -= 1
                else:
                    yield policy
        return
    pairs = aligned(ours, theirs)
    matched_old, matched_new = {i for i, _ in pairs}, {j for _, j in pairs}
    yield from (p for i, p in enumerate(old.policies) if i not in matched_old)
    yield from (p for j, p in enumerate(new.policies) if j not in matched_new)


def _content(policy: Policy) -> Hashable:
    """Everything that affects verdicts; names do not."""
    return policy.subject, policy.hosts, policy.isolates, policy.ingress, policy.egress


def is_unordered(tier: Tier) -> bool:
    """Whether order has no effect: denies win, all denials are of one sort, no rule has an effect."""
    if tier.mode is not TierMode.DENY_WINS:
        return False
    rules = [r for policy in tier.policies for r in (*policy.ingress, *policy.egress)]
    actions = {rule.action for rule in rules} - {Action.ALLOW}
    return (
        len(actions) <= 1
        and all(action.is_deny for action in actions)
        and not any(rule.log or rule.limit is not None for rule in rules)
    )


def aligned(one: Sequence[Hashable], other: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Index pairs of equal members, ascending on both sides: a common subsequence."""
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    pairs = [(at, at) for at in range(start)]
    middle, theirs = one[start : len(one) - end], other[start : len(other) - end]
    if middle and theirs and max(len(middle), len(theirs)) <= _MOST_ALIGNED:
        for i, j, size in SequenceMatcher(
            None, middle, theirs, autojunk=False
        ).get_matching_blocks():
            pairs += [(start + i + at, start + j + at) for at in range(size)]
    pairs += [(len(one) - at, len(other) - at) for at in range(end, 0, -1)]
    return pairs


def restricted(policies: PolicySet, keeps: Callable[[Policy], bool]) -> PolicySet:
    """The policies that pass a test; the tiers stay as they are."""
    return PolicySet(
        tuple(replace(t, policies=tuple(filter(keeps, t.policies))) for t in policies.tiers)
    )


@dataclass(frozen=True, slots=True)
class Subjects:
    """The ends that some policies select, as far as this is decidable without a solver."""

    selectors: tuple[EndpointSelector, ...]
    has_hosts: bool

    @staticmethod
    def of(policies: Sequence[Policy]) -> "Subjects":
        """The subjects of some policies."""
        selectors = tuple(dict.fromkeys(p.subject for p in policies))
        return Subjects(selectors, any(p.hosts != NEVER for p in policies))

    def may_share(self, policy: Policy) -> bool:
        """False: no end is selected by both the policy and one of these subjects."""
        if self.has_hosts and policy.hosts != NEVER:
            return True
        return any(may_overlap(policy.subject, mine) for mine in self.selectors)


def may_overlap(one: EndpointSelector, other: EndpointSelector) -> bool:
    """False: no endpoint is selected by both. True also if that is not obvious."""
    if None not in (one.namespace, other.namespace) and one.namespace != other.namespace:
        return False
    return _compatible(one.labels, other.labels) and _compatible(
        one.namespace_labels, other.namespace_labels
    )


def _compatible(one: LabelSelector, other: LabelSelector) -> bool:
    theirs: dict[str, list[Requirement]] = {}
    for requirement in other.requirements:
        theirs.setdefault(requirement.key, []).append(requirement)
    return not any(
        _contradict(mine, each) or _contradict(each, mine)
        for mine in one.requirements
        for each in theirs.get(mine.key, ())
    )


def _contradict(one: Requirement, other: Requirement) -> bool:
    """Whether no value, nor its absence, meets both; the caller tries both orders."""
    match one.operator, other.operator:
        case Operator.IN, Operator.IN:
            return not set(one.values) & set(other.values)
        case Operator.IN, Operator.NOT_IN:
            return set(one.values) <= set(other.values)
        case ((Operator.IN | Operator.EXISTS), Operator.DOES_NOT_EXIST):
            return True
        case _:
            return False
