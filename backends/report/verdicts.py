# SPDX-License-Identifier: Apache-2.0
"""The deciding rule or default of a flow, in words and as JSON: the same in every command and format."""

from typing import assert_never

from policyc.ir.policy import Action, Policy
from policyc.ir.results.places import place_of_rule
from policyc.ir.semantics import (
    OUTSIDE,
    AllowedByDefault,
    DecidedByRule,
    Decider,
    DeniedByDefault,
    DeniedByHost,
    Effect,
    EffectKind,
    EndVerdict,
    Verdict,
)
from policyc.ir.spans import Span

_EFFECTS = {
    EffectKind.LOG: "logged",
    EffectKind.AUDIT: "counted",
    EffectKind.LIMIT: "limited",
}


def decider_words(decider: Decider) -> str:
    """The rule, policies or default that decided, with the place where it is written."""
    match decider:
        case DecidedByRule():
            return rule_words(decider)
        case DeniedByDefault(policies=policies):
            names = ", ".join(f"{p.title} ({where(p.origin.span)})" for p in policies)
            return f"no rule allows it; isolated by {names}"
        case AllowedByDefault(why=why):
            return f"by default: {why}"
        case DeniedByHost(host=host):
            return f"no policy selects the host interface {host}, which is closed by default"
        case _:
            assert_never(decider)


def rule_words(by: DecidedByRule) -> str:
    """A rule with its policy, path, name and place."""
    place = place_of_rule(by.policy, by.rule)
    return f"rule {place.words} ({where(place.span)})"


def effect_words(effect: Effect) -> str:
    """An effect and the rule that has it."""
    limit = effect.by.rule.limit
    if effect.kind is EffectKind.LIMIT and limit is not None:
        what = f"limited to {limit.per_second} a second, {limit.burst} at once"
    else:
        what = _EFFECTS[effect.kind]
    return f"{what} by {rule_words(effect.by)}"


def where(span: Span) -> str:
    """A span for people: the file alone if there is no line."""
    return str(span) if span.line else span.file


def decider_json(decider: Decider) -> dict[str, object]:
    """The decider, as every `--format json` shows it."""
    match decider:
        case DecidedByRule():
            return {"kind": "rule", **_rule_json(decider)}
        case DeniedByDefault(policies=policies):
            return {"kind": "default-deny", "policies": [_policy_json(p) for p in policies]}
        case AllowedByDefault(why=why):
            return {"kind": "default-allow", "why": why}
        case DeniedByHost(host=host):
            return {"kind": "host-deny", "host": host}
        case _:
            assert_never(decider)


def effect_json(effect: Effect) -> dict[str, object]:
    """An effect and its rule, as every `--format json` shows it."""
    shown: dict[str, object] = {"kind": effect.kind.value, **_rule_json(effect.by)}
    limit = effect.by.rule.limit
    if effect.kind is EffectKind.LIMIT and limit is not None:
        shown |= {"per_second": limit.per_second, "burst": limit.burst}
    return shown


def end_json(end: EndVerdict) -> dict[str, object]:
    """The verdict of one end."""
    return {
        "action": end.action.value,
        "by": decider_json(end.decider),
        "effects": [effect_json(effect) for effect in end.effects],
    }


def verdict_json(verdict: Verdict) -> dict[str, object]:
    """The verdicts of both ends, and of the connection."""
    return {
        "action": verdict.action.value,
        "egress": end_json(verdict.egress),
        "ingress": end_json(verdict.ingress),
    }


def span_json(span: Span) -> dict[str, object]:
    """A place without its end, as in findings."""
    return {"file": span.file, "line": span.line, "column": span.column}


def _rule_json(by: DecidedByRule) -> dict[str, object]:
    origin = by.rule.origin
    return {"policy": by.policy.title, "path": origin.path, **span_json(origin.span)}


def _policy_json(policy: Policy) -> dict[str, object]:
    return {"policy": policy.title, **span_json(policy.origin.span)}


def verdict_words(verdict: Verdict) -> list[str]:
    """The verdict of the connection, and why: a line for each end that decides it."""
    ends = deciding_ends(verdict)
    lines = [f"{PAST[end.action]} at {name}: {decider_words(end.decider)}" for name, end in ends]
    lines += [effect_words(effect) for _, end in ends for effect in end.effects]
    return lines


def deciding_ends(verdict: Verdict) -> list[tuple[str, EndVerdict]]:
    """The ends that decide: those that deny; else those that are endpoints, or both if none is."""
    ends = [("egress", verdict.egress), ("ingress", verdict.ingress)]
    if verdict.action.is_deny:
        return [(name, end) for name, end in ends if end.action.is_deny]
    return [(name, end) for name, end in ends if end != OUTSIDE] or ends


PAST = {
    Action.ALLOW: "allowed",
    Action.DENY: "denied",
    Action.DENY_OWN_NODE: "denied",
    Action.REJECT: "rejected",
    Action.PASS: "passed on",
    Action.LOG: "logged",
    Action.AUDIT: "counted",
}
"""The participle of each action."""
