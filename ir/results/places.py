# SPDX-License-Identifier: Apache-2.0
"""Conversion from the parts of the Policy IR to the places that results name."""

from typing import assert_never

from policyc.ir.policy import Direction, Policy, Rule
from policyc.ir.results.common import Place, stable_key
from policyc.ir.semantics import (
    AllowedByDefault,
    DecidedByRule,
    Decider,
    DeniedByDefault,
    DeniedByHost,
)


def place_of_rule(policy: Policy, rule: Rule) -> Place:
    """The place of a rule: `shop/web spec.ingress[0] 'from the office'`."""
    name = f" {rule.name!r}" if rule.name else ""
    path = rule.origin.path
    return Place(rule.origin.span, path, f"{policy.title} {path}{name}")


def place_of_policy(policy: Policy) -> Place:
    """The place of a policy."""
    return Place(policy.origin.span, policy.origin.path, policy.title)


def places_of(decider: Decider) -> tuple[Place, ...]:
    """The rule that decided, or every policy that isolates; nothing for the other defaults."""
    match decider:
        case DecidedByRule():
            return (place_of_rule(decider.policy, decider.rule),)
        case DeniedByDefault(policies=policies):
            return tuple(map(place_of_policy, policies))
        case AllowedByDefault() | DeniedByHost():
            return ()
        case _:
            assert_never(decider)


def key_of_policy(policy: Policy, what: str = "") -> str:
    """The stable key of a finding about a policy."""
    return stable_key(policy.kind, policy.namespace, policy.name, policy.origin.path, what)


def key_of_rule(policy: Policy, direction: Direction, index: int, what: str = "") -> str:
    """The stable key of a finding about a rule of a policy, by its direction and index."""
    path = policy.rules(direction)[index].origin.path
    return stable_key(policy.kind, policy.namespace, policy.name, path, what)
