# SPDX-License-Identifier: Apache-2.0
"""The policy changes that would give a flow another verdict, in sentences."""

from collections.abc import Iterable
from typing import assert_never

from policyc.ir.results.common import Place
from policyc.ir.results.explain import (
    EndWalk,
    PolicyWalk,
    RuleRole,
    RuleWalk,
    TierOutcome,
    TierWalk,
)
from policyc.ir.semantics import (
    AllowedByDefault,
    DecidedByRule,
    DeniedByDefault,
    DeniedByHost,
)


def changes_of(walk: EndWalk) -> tuple[str, ...]:
    """The obstacles to another verdict at one end; nothing if no policy takes part."""
    decider = walk.verdict.decider
    match decider:
        case DecidedByRule():
            return _of_rules(walk)
        case DeniedByDefault():
            return _of_default(walk)
        case DeniedByHost(host):
            return (f"a policy must select the host interface {host}, and allow it",)
        case AllowedByDefault():
            if walk.skipped:
                return ()
            return (
                f"add a policy that isolates {walk.subject} in {walk.direction.value}, or a rule "
                f"that denies this",
            )
        case _:
            assert_never(decider)


def _of_rules(walk: EndWalk) -> tuple[str, ...]:
    """Every rule that would have to stop matching: the deciding rule, and rules that agree with it."""
    tier = _deciding(walk.tiers)
    rules = [rule for policy in tier.policies for rule in policy.rules]
    decides = [rule for rule in rules if rule.role is RuleRole.DECIDES]
    agrees = [rule for rule in rules if rule.role is RuleRole.AGREES]
    all_of_them = _listed(rule.place for rule in (*decides, *agrees))
    return (f"{all_of_them} must stop matching, or an earlier rule must match",)


def _of_default(walk: EndWalk) -> tuple[str, ...]:
    """A rule that allows it is missing: the nearest such rule, and the policies that isolate."""
    tier = _deciding(walk.tiers)
    isolating = [policy for policy in tier.policies if policy.isolates]
    names = _joined([policy.place.words for policy in isolating])
    sentences = [
        f"a policy of tier {tier.name} that selects {walk.subject} must allow it in "
        f"{walk.direction.value}, or {names} must stop selecting it"
    ]
    nearest = nearest_of(tier.policies)
    if nearest is not None:
        why = "; ".join(r.words for mismatch in nearest.mismatches for r in mismatch.reasons)
        sentences.append(f"the closest rule is {nearest.place.words} ({nearest.place.span}): {why}")
    return tuple(sentences)


def nearest_of(policies: Iterable[PolicyWalk]) -> RuleWalk | None:
    """The rule that would allow it, with the fewest facts against a match."""
    allowing = [
        rule
        for policy in policies
        for rule in policy.rules
        if rule.mismatches and rule.action.value == "allow"
    ]
    return min(allowing, key=lambda rule: rule.distance, default=None)


def _deciding(tiers: Iterable[TierWalk]) -> TierWalk:
    decided = (TierOutcome.DECIDED, TierOutcome.DEFAULT)
    return next(tier for tier in tiers if tier.outcome in decided)


def _listed(places: Iterable[Place]) -> str:
    """`a`, `a and b`, `a, b and c`, each with its place."""
    return _joined([f"{place.words} ({place.span})" for place in places])


def _joined(parts: list[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
