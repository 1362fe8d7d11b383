# SPDX-License-Identifier: Apache-2.0
"""A tier in explicit form: the defaults that its mode and its isolation imply, written as rules.

Input: any tier. Output: a first-match tier in which nothing isolates and unmatched traffic passes on,
with the same action for every flow. Where a default became a rule, the deciding policy is another one.
For targets that have only rules and their order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from policyc.ir.diagnostics import Report
from policyc.ir.passes.ir_pass import IrPass, Keeps
from policyc.ir.policy import (
    ANY_PEER,
    Action,
    AnyPeer,
    AnyService,
    Direction,
    Policy,
    PolicySet,
    Rule,
    Tier,
    TierMode,
)

DENIES, DEFAULT = "denies", "default"
_OTHERS = Action.ALLOW.place
_NAMES = {Action.DENY_OWN_NODE.place: ("denies-own-node",), Action.DENY.place: (DENIES,)}
"""The suffix of the name of a policy that was split."""


@dataclass(frozen=True)
class ExplicitTiers(IrPass):
    """Every tier in explicit form."""

    name: ClassVar[str] = "explicit-tiers"
    keeps: ClassVar[Keeps] = Keeps.ACTIONS

    def run(self, policies: PolicySet, report: Report) -> PolicySet:
        """The policies with their order, and their defaults, as rules."""
        return PolicySet(tuple(map(explicit, policies.tiers)))


def explicit(tier: Tier) -> Tier:
    """The tier with its order, and its defaults, as rules."""
    policies = list(_in_order(tier))
    if tier.unmatched is not Action.PASS:
        policies += [_default(policy, tier.unmatched) for policy in tier.policies]
    for direction in Direction:
        _trim(policies, direction)
    kept = tuple(policy for policy in policies if policy.ingress or policy.egress)
    return Tier(tier.name, TierMode.FIRST_MATCH, Action.PASS, kept)


def _trim(policies: list[Policy], direction: Direction) -> None:
    """Remove trailing rules that pass on flows that would pass on without them."""
    for at in range(len(policies) - 1, -1, -1):
        rules = policies[at].rules(direction)
        while rules and rules[-1].action is Action.PASS and not rules[-1].log:
            rules = rules[:-1]
        if direction is Direction.INGRESS:
            policies[at] = replace(policies[at], ingress=rules)
        else:
            policies[at] = replace(policies[at], egress=rules)
        if rules:
            return


def decides_all(rules: tuple[Rule, ...]) -> bool:
    """Whether one of the rules decides, or passes on, every flow that reaches it."""
    return any(
        not rule.action.goes_on
        and any(isinstance(peer, AnyPeer) for peer in rule.peers)
        and any(isinstance(ports, AnyService) for ports in rule.ports)
        and isinstance(rule.own, AnyPeer)
        and not rule.except_ports
        and rule.source_ports is None
        for rule in rules
    )


def _in_order(tier: Tier) -> Iterator[Policy]:
    """The policies' rules.

    Where denies win: first the denies of all policies by action, then the rest.
    """
    if tier.mode is TierMode.FIRST_MATCH:
        yield from (replace(policy, isolates=frozenset()) for policy in tier.policies)
        return
    places = sorted({rule.action.place for p in tier.policies for rule in (*p.ingress, *p.egress)})
    for place in (*(each for each in places if each != _OTHERS), _OTHERS):
        for policy in tier.policies:
            part = _with(policy, _at(place, policy.ingress), _at(place, policy.egress))
            yield replace(part, name="-".join((policy.name, *_NAMES.get(place, ()))))


def _at(place: int, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if rule.action.place == place)


def _with(policy: Policy, ingress: tuple[Rule, ...], egress: tuple[Rule, ...]) -> Policy:
    return replace(policy, isolates=frozenset(), ingress=ingress, egress=egress)


def _default(policy: Policy, action: Action) -> Policy:
    """The default for unmatched traffic of a policy's subjects, in the directions it isolates.

    If one of its own rules decides every flow, none of their traffic is unmatched.
    """
    rule = Rule(action, (ANY_PEER,), (AnyService(),), policy.origin)

    def default(direction: Direction) -> tuple[Rule, ...]:
        is_open = direction in policy.isolates and not decides_all(policy.rules(direction))
        return (rule,) if is_open else ()

    both = default(Direction.INGRESS), default(Direction.EGRESS)
    return replace(_with(policy, *both), name=f"{policy.name}-{DEFAULT}")


def allows_apart(tier: Tier) -> tuple[Tier, ...]:
    """The tier as two tiers with the same meaning: the rules before its last allows, and these allows.

    The second tier only allows, and denies the rest of what the whole tier isolates: NetworkPolicy's
    form. A tier that denies nothing by default, or whose first part passes flows beyond both, stays as
    it is.
    """
    first = tuple(policy for policy in _in_order(tier) if policy.ingress or policy.egress)
    at = len(first)
    while at and all(
        r.action is Action.ALLOW for r in (*first[at - 1].ingress, *first[at - 1].egress)
    ):
        at -= 1
    before = first[:at]
    passes = any(r.action is Action.PASS for p in before for r in (*p.ingress, *p.egress))
    if tier.unmatched is not Action.DENY or passes or not before:
        return (tier,)
    allowing = {policy.title: policy for policy in first[at:]}
    isolating = tuple(
        replace(_with(policy, *_rules_of(allowing.get(policy.title))), isolates=policy.isolates)
        for policy in tier.policies
    )
    return (
        Tier(f"{tier.name}-first", TierMode.FIRST_MATCH, Action.PASS, before),
        Tier(tier.name, TierMode.DENY_WINS, tier.unmatched, isolating),
    )


def _rules_of(policy: Policy | None) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    return ((), ()) if policy is None else (policy.ingress, policy.egress)
