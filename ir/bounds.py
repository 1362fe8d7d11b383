# SPDX-License-Identifier: Apache-2.0
"""Lower and upper bounds of policy sets with opaque rules.

An opaque rule (`ir.policy.Opaque`) matches some flows for certain and may match others. The *lower
bound* allows only the flows that every reading of the rules allows. The *upper bound* allows all flows
that some reading allows. Both are policy sets without opaque rules. A set in which each opaque rule is
*taken* as its certain matches or as all its possible matches has no opaque rules either.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.policy import Action, Direction, Policy, PolicySet, Rule


class Taken(Enum):
    """The matches that an opaque rule is assumed to have."""

    CERTAIN = "certain"
    WIDEST = "widest"


@dataclass(frozen=True, slots=True, order=True)
class RulePlace:
    """The place of a rule in a policy set: indices of the tier, of the policy in it, and of the rule."""

    tier: int
    policy: int
    is_egress: bool
    index: int

    @property
    def direction(self) -> Direction:
        """The rule's direction."""
        return Direction.EGRESS if self.is_egress else Direction.INGRESS


@dataclass(frozen=True, slots=True)
class OpaqueRule:
    """An opaque rule of a policy set, and its place."""

    place: RulePlace
    policy: Policy
    rule: Rule

    @property
    def title(self) -> str:
        """The name of the rule in messages."""
        return f"{self.policy.title} {self.rule.origin.path}"


Choice = Callable[[RulePlace, Rule], Rule]
"""The rule that replaces an opaque rule."""


def opaque_rules(policies: PolicySet) -> Iterator[OpaqueRule]:
    """Every opaque rule, in the order of evaluation."""
    for tier_at, tier in enumerate(policies.tiers):
        for policy_at, policy in enumerate(tier.policies):
            for direction in Direction:
                for index, rule in enumerate(policy.rules(direction)):
                    if rule.opaque is not None:
                        is_egress = direction is Direction.EGRESS
                        place = RulePlace(tier_at, policy_at, is_egress, index)
                        yield OpaqueRule(place, policy, rule)


def is_understood(policies: PolicySet) -> bool:
    """Whether no rule is opaque."""
    return next(opaque_rules(policies), None) is None


def lower_bound(policies: PolicySet) -> PolicySet:
    """The policies that allow a flow only if every reading of the opaque rules allows it."""
    return chosen(policies, lambda _, rule: lower_rule(rule))


def upper_bound(policies: PolicySet) -> PolicySet:
    """The policies that allow a flow if some reading of the opaque rules allows it."""
    return chosen(policies, lambda _, rule: upper_rule(rule))


def lower_rule(rule: Rule) -> Rule:
    """The most closed reading of a rule. The rule is enforced in this reading.

    A flow that an opaque pass may match is denied: the next tier may decide it, or this one.
    """
    opaque = rule.opaque
    if opaque is None:
        return rule
    if rule_action(rule) is Action.PASS:
        return replace(opaque.widest, action=Action.DENY)
    return opaque.widest if rule_action(rule).is_deny else opaque.certain


def upper_rule(rule: Rule) -> Rule:
    """The most open reading of a rule. A flow that an opaque pass may match is allowed."""
    opaque = rule.opaque
    if opaque is None:
        return rule
    match rule_action(rule):
        case Action.ALLOW:
            return opaque.widest
        case Action.PASS:
            return replace(opaque.widest, action=Action.ALLOW)
        case Action.LOG | Action.AUDIT:  # no verdict depends on it, and an effect may
            return opaque.widest
        case _:
            return opaque.certain


def taken_rule(rule: Rule, taken: Taken) -> Rule:
    """The rule with its own action, under the given reading."""
    opaque = rule.opaque
    if opaque is None:
        return rule
    return opaque.widest if taken is Taken.WIDEST else opaque.certain


def rule_action(rule: Rule) -> Action:
    """The action as written: an opaque pass is enforced as a deny."""
    return rule.action if rule.opaque is None else rule.opaque.widest.action


def chosen(policies: PolicySet, choose: Choice) -> PolicySet:
    """The policies with each opaque rule replaced.

    Without opaque rules, the result is the input itself.
    """
    tiers = []
    for tier_at, tier in enumerate(policies.tiers):
        made = tuple(
            _policy(policy, (tier_at, policy_at), choose)
            for policy_at, policy in enumerate(tier.policies)
        )
        tiers.append(replace(tier, policies=made))
    return PolicySet(tuple(tiers))


def _policy(policy: Policy, at: tuple[int, int], choose: Choice) -> Policy:
    if not any(rule.opaque for rule in (*policy.ingress, *policy.egress)):
        return policy

    def rules(direction: Direction) -> Iterator[Rule]:
        for index, rule in enumerate(policy.rules(direction)):
            if rule.opaque is None:
                yield rule
            else:
                yield choose(RulePlace(*at, direction is Direction.EGRESS, index), rule)

    return replace(
        policy, ingress=tuple(rules(Direction.INGRESS)), egress=tuple(rules(Direction.EGRESS))
    )
