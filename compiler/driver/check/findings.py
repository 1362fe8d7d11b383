# SPDX-License-Identifier: Apache-2.0
"""Rules that change nothing, as findings: the message, the place, and the remedy."""

from collections.abc import Iterable, Iterator

from policyc.compiler.driver.check.codes import (
    DEAD,
    REDUNDANT,
    SELECTS_NOTHING,
    SHADOWED,
)
from policyc.ir.diagnostics import Code, Note
from policyc.ir.policy import (
    NETWORK_POLICY,
    NEVER,
    Action,
    Direction,
    EndpointSelector,
    Policy,
    PolicySet,
)
from policyc.ir.results.common import Finding, Place
from policyc.ir.results.places import key_of_policy, key_of_rule, place_of_policy, place_of_rule
from policyc.verifier.cluster.reads import policies_of
from policyc.verifier.cluster.redundancy import Useless, Uselessness
from policyc.verifier.cluster.rows import RuleId
from policyc.verifier.redundancy.dead_parts import (
    dead_parts,
    is_impossible,
)

CODES = {
    Uselessness.DEAD: DEAD,
    Uselessness.SHADOWED: SHADOWED,
    Uselessness.REDUNDANT: REDUNDANT,
}
_MOST_NAMED = 3
_MOST_NOTES = 8


def place_of(rule: RuleId) -> Place:
    """The place of a rule."""
    return place_of_rule(rule.policy, rule.rule)


def findings_of(useless: Iterable[Useless], universe: str) -> Iterator[Finding]:
    """A finding for each rule that changes nothing in a universe, which is given in words."""
    for each in useless:
        code = CODES[each.why]
        place = place_of(each.rule)
        responsible = _responsible(each)
        yield Finding(
            code.name,
            code.severity,
            _message(code, each, place, [other.words for other in responsible]),
            f"{_explanation(each)} This holds for {universe}.",
            place,
            key_of_rule(each.rule.policy, each.rule.direction, each.rule.index),
            tuple(Note(p.span, f"decided by {p.words}") for p in responsible[:_MOST_NOTES]),
            removal_hint(each.rule),
        )


_EXPLANATIONS = {
    Uselessness.DEAD: "No flow matches its subject, its peer and its ports.",
    Uselessness.SHADOWED: "Earlier rules decide every flow that it matches.",
    Uselessness.REDUNDANT: "Removing this rule alone changes no verdict and no effect.",
}


def _explanation(useless: Useless) -> str:
    """For a dead rule, the parts that no flow matches, if that is easy to see."""
    said = _EXPLANATIONS[useless.why]
    if useless.why is Uselessness.DEAD:
        parts = dead_parts(useless.rule.policy, useless.rule.rule)
        return " ".join((said, *(f"{part[0].upper()}{part[1:]}." for part in parts)))
    return said


def _responsible(useless: Useless) -> list[Place]:
    """The rules that decide instead; for a redundant rule, without those that only pass on."""
    final = [rule for rule in useless.instead if rule.rule.action is not Action.PASS]
    is_redundant = useless.why is Uselessness.REDUNDANT and (final or useless.defaults)
    rules = [place_of(rule) for rule in (final if is_redundant else useless.instead)]
    return [*rules, *(place_of_policy(policy) for policy in useless.defaults)]


def _message(code: Code, useless: Useless, place: Place, responsible: list[str]) -> str:
    named = ", ".join(responsible[:_MOST_NAMED])
    more = len(responsible) - _MOST_NAMED
    if more > 0:
        named += f" and {more} more"
    if not named:
        by = "the default verdict is the same"
    elif useless.why is Uselessness.SHADOWED:
        by = f"{named} decide{'' if len(responsible) > 1 else 's'} all that it matches"
    else:
        by = f"{named} decide{'' if len(responsible) > 1 else 's'} all that it matches alike"
    return code.at(place.span, rule=place.words, by=by).message


def removal_hint(rule: RuleId) -> str:
    """How to remove a rule so that its policy isolates the same subjects."""
    policy, direction = rule.policy, rule.direction
    is_last = len(policy.rules(direction)) == 1
    if not is_last or direction not in policy.isolates:
        return "remove the rule"
    if policy.kind != NETWORK_POLICY:
        return (
            f"remove the rule; it is the last for {direction.value}, and the policy must keep"
            " denying what no rule allows"
        )
    types = ", ".join(_types(policy))
    return (
        f"remove the rule, and write `policyTypes: [{types}]`: without rules for"
        f" {direction.value} only policyTypes keeps its pods isolated"
    )


def impossible_subjects(policies: PolicySet) -> Iterator[Finding]:
    """Policies whose selectors contradict themselves: no pod that could exist is selected."""
    known: dict[EndpointSelector, bool] = {}
    for policy in policies_of((policies,)):
        if policy.hosts != NEVER:
            continue
        if policy.subject not in known:
            known[policy.subject] = is_impossible(policy.subject)
        if known[policy.subject]:
            why = "Its selector contradicts itself: no possible pod matches."
            yield selects_nothing(policy, why)


def selects_nothing(policy: Policy, why: str) -> Finding:
    """The finding about a policy without subjects."""
    place, code = place_of_policy(policy), SELECTS_NOTHING
    return Finding(
        code.name,
        code.severity,
        code.at(place.span, policy=place.words).message,
        why,
        place,
        key_of_policy(policy),
        hint="correct its selector, or remove the policy",
    )


def _types(policy: Policy) -> list[str]:
    return [d.value.capitalize() for d in Direction if d in policy.isolates]
