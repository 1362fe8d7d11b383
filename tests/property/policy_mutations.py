# SPDX-License-Identifier: Apache-2.0
"""Policy sets with one change, and with effects."""

import random
from collections.abc import Callable
from dataclasses import replace

from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Action, Direction, Limit, Policy, PolicySet, Rule
from policyc.ir.semantics import end_verdict
from policyc.ir.universe import Flow


def with_notes(rng: random.Random, policies: PolicySet) -> PolicySet:
    """Some rules log, have limits, match source ports, or only make a note."""

    def noted(rule: Rule) -> Rule:
        match rng.randrange(12):
            case 0:
                return replace(rule, action=rng.choice((Action.LOG, Action.AUDIT)))
            case 1:
                return replace(rule, log=True)
            case 2:
                return replace(rule, limit=Limit(rng.choice((5, 10)), 20))
            case 3:
                return replace(rule, source_ports=IntervalSet.of([(1, rng.choice((53, 1023)))]))
            case _:
                return rule

    return changed(policies, noted)


def changed(policies: PolicySet, change: Callable[[Rule], Rule]) -> PolicySet:
    def of(policy: Policy) -> Policy:
        ingress, egress = (tuple(map(change, rules)) for rules in (policy.ingress, policy.egress))
        return replace(policy, ingress=ingress, egress=egress)

    return PolicySet(tuple(replace(t, policies=tuple(map(of, t.policies))) for t in policies.tiers))


def mutated(rng: random.Random, policies: PolicySet) -> PolicySet:
    """One small edit somewhere, or none that matters."""
    tiers = list(policies.tiers)
    at = rng.randrange(len(tiers))
    held = list(tiers[at].policies)
    if not held or rng.random() < 0.15:
        tiers[at] = replace(tiers[at], unmatched=rng.choice((Action.DENY, Action.PASS)))
        return PolicySet(tuple(tiers))
    index = rng.randrange(len(held))
    policy, direction = held[index], rng.choice(tuple(Direction))
    rules = list(policy.rules(direction))
    if rules and rng.random() < 0.8:
        where = rng.randrange(len(rules))
        rules[where] = edited(rng, rules[where])
    else:
        policy = replace(policy, isolates=policy.isolates ^ {direction})
    held[index] = replace(policy, **{direction.value: tuple(rules)})
    tiers[at] = replace(tiers[at], policies=tuple(held))
    return PolicySet(tuple(tiers))


def edited(rng: random.Random, rule: Rule) -> Rule:
    match rng.randrange(4):
        case 0:
            return replace(rule, action=rng.choice((Action.ALLOW, Action.DENY, Action.PASS)))
        case 1:
            return replace(rule, peers=rule.peers[1:])
        case 2:
            return replace(rule, ports=rule.ports[1:])
        case _:
            return replace(rule, except_ports=())


def answers(policies: PolicySet, flow: Flow) -> list[object]:
    """The compared properties of each end: the action, and the kinds of effects."""
    found: list[object] = []
    for direction, subject, peer in (
        (Direction.EGRESS, flow.src, flow.dst),
        (Direction.INGRESS, flow.dst, flow.src),
    ):
        verdict = end_verdict(policies, direction, subject, peer, flow)
        found.append((verdict.action, {(e.kind, e.by.rule.limit) for e in verdict.effects}))
    return found
