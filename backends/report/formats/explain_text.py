# SPDX-License-Identifier: Apache-2.0
"""Explanations as text: each end, each tier, each policy, and the rules that took part."""

from collections.abc import Sequence

from policyc.backends.report.flows import flow_words
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.page import BAD, FAINT, GOOD, STRONG, WARN, Page
from policyc.backends.report.verdicts import PAST, effect_words, where
from policyc.ir.counts import counted
from policyc.ir.policy import Action
from policyc.ir.results.explain import (
    EndWalk,
    ExplainResult,
    Mismatch,
    PolicyWalk,
    RuleRole,
    RuleWalk,
    TierOutcome,
    TierWalk,
)

FORMAT = "text"

_ROLES = {
    RuleRole.DECIDES: "matches and decides",
    RuleRole.NOTES: "matches and logs or counts; evaluation continues",
    RuleRole.PASSES: "matches and passes it on",
    RuleRole.AGREES: "matches too",
    RuleRole.COMES_LATER: "matches too, but comes later",
    RuleRole.NO_MATCH: "does not match",
}


def explain_text(result: ExplainResult, options: ReportOptions) -> str:
    """The verdict, then the walk of each end."""
    page = Page()
    page.add(f"{flow_words(result.flow)}: ", (result.verdict, f"{STRONG} {_style(result.verdict)}"))
    for what in result.unknown:
        page.add(f"depends on {what}, which is not known", indent=2)
    for walk in (*result.egress, *result.ingress):
        page.gap()
        several = len(result.egress if walk in result.egress else result.ingress) > 1
        _end(page, walk, several, options)
    page.gap()
    page.add((f"universe: {result.universe.words}", FAINT))
    return page.to_text(options)


def _style(verdict: str) -> str:
    return {Action.ALLOW.value: GOOD, "unknown": WARN}.get(verdict, BAD)


def _end(page: Page, walk: EndWalk, is_one_of_several: bool, options: ReportOptions) -> None:
    action = walk.verdict.action
    page.add(
        f"{walk.direction.value} of {walk.subject}: ",
        (PAST[action], f"{STRONG} {_style(action.value)}"),
        f", for example if {walk.assumed}" if walk.assumed and is_one_of_several else "",
    )
    if walk.assumed and not is_one_of_several:
        page.add(f"the verdict is the same for every unknown value; here {walk.assumed}", indent=2)
    if walk.skipped:
        page.add(walk.skipped, indent=2)
    _tiers(page, walk.tiers, options)
    for effect in walk.verdict.effects:
        page.add(effect_words(effect), indent=2)
    if not walk.skipped and not any(_is_decided(tier) for tier in walk.tiers):
        page.add("no tier decides it: " + _undecided(walk), indent=2)
    for sentence in walk.changes:
        page.add(("to change: ", STRONG), sentence, indent=2)
    for choice in walk.choices:
        page.add((f"{choice.clause}, our choice: {choice.words}", FAINT), indent=2)


def _is_decided(tier: TierWalk) -> bool:
    return tier.outcome in (TierOutcome.DECIDED, TierOutcome.DEFAULT)


def _undecided(walk: EndWalk) -> str:
    if walk.verdict.action is Action.ALLOW:
        return "no policy isolates it, so it is allowed"
    return "the host interface is under host policy, but no policy selects it"


def _tiers(page: Page, tiers: Sequence[TierWalk], options: ReportOptions) -> None:
    for tier in tiers:
        if tier.outcome is TierOutcome.NOT_ASKED:
            continue
        page.add((f"tier {tier.name}", STRONG), f": {tier.words}", indent=2)
        silent = [policy for policy in tier.policies if not policy.rules and not policy.isolates]
        for policy in tier.policies:
            if policy not in silent:
                _policy(page, policy, options)
        if silent:
            names = ", ".join(policy.place.words for policy in silent)
            page.add((f"select it, without rules in this direction: {names}", FAINT), indent=4)
    unasked = [tier.name for tier in tiers if tier.outcome is TierOutcome.NOT_ASKED]
    if unasked:
        page.add((f"not evaluated: {', '.join(unasked)}", FAINT), indent=2)


def _policy(page: Page, policy: PolicyWalk, options: ReportOptions) -> None:
    isolates = "isolates it" if policy.isolates else "selects it"
    page.add(f"{policy.place.words} {isolates} ({where(policy.place.span)})", indent=4)
    shown = [rule for rule in policy.rules if options.is_full or not rule.mismatches]
    nearest = policy.nearest
    for rule in shown:
        _rule(page, rule, _ROLES[rule.role])
    if nearest is not None and not options.is_full:
        alone = len(policy.rules) == 1
        _rule(
            page, nearest, "does not match" if alone else "is the closest rule, and does not match"
        )
        shown.append(nearest)
    rest = len(policy.rules) - len(shown)
    if not policy.rules:
        page.add("has no rules in this direction", indent=6)
    elif rest:
        verb = "does" if rest == 1 else "do"
        page.add((f"{counted(rest, 'other rule')} {verb} not match", FAINT), indent=6)


def _rule(page: Page, rule: RuleWalk, role: str) -> None:
    style = {RuleRole.DECIDES: STRONG, RuleRole.PASSES: STRONG}.get(rule.role, "")
    page.add((f"{rule.place.path} {role}", style), f" ({where(rule.place.span)})", indent=6)
    page.add(rule.words, indent=8)
    for mismatch in rule.mismatches:
        page.add(_mismatch_words(mismatch), indent=8)


def _mismatch_words(mismatch: Mismatch) -> str:
    reasons = "; ".join(reason.words for reason in mismatch.reasons)
    others = mismatch.n_alternatives - 1
    also = f" (the closest of {mismatch.n_alternatives})" if others > 0 else ""
    return f"{mismatch.part.value}{also}: {reasons}"


RENDERERS = {ExplainResult: explain_text}
