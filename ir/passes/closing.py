# SPDX-License-Identifier: Apache-2.0
"""Rules that cannot be enforced as they stand, made so that they open nothing."""

from dataclasses import replace

from policyc.ir.policy import Action, Rule

_DENIES = "a bundle denies whatever the rule may match"
_OUTCOMES = {
    Action.ALLOW: "a bundle does not allow what it asks for",
    Action.DENY: _DENIES,
    Action.DENY_OWN_NODE: _DENIES,
    Action.REJECT: _DENIES,
    Action.PASS: f"{_DENIES}, since a later rule might allow what it passes on",
    Action.LOG: "a bundle does not log what it asks for",
    Action.AUDIT: "a bundle does not count what it asks for",
}


def closed(rule: Rule) -> Rule:
    """The rule so that it opens nothing, where it would have to match less than `rule` says."""
    if rule.action is Action.ALLOW or rule.action.goes_on:
        return replace(rule, peers=())
    return replace(rule, action=Action.DENY) if rule.action is Action.PASS else rule


def outcome_of(action: Action) -> str:
    """What becomes of a rule with this action once it is closed, in words."""
    return _OUTCOMES[action]
