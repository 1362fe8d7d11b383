# SPDX-License-Identifier: Apache-2.0
"""Comparisons and bounds of opaque rules, against every possible reading.

A reading says of each opaque rule whether a flow that it may match is matched. Rules of equal content
are read alike: that is all that two sides have in common.
"""

import random
from collections.abc import Hashable, Iterator
from dataclasses import replace
from ipaddress import ip_address
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.ir.bounds import (
    OpaqueRule,
    RulePlace,
    Taken,
    chosen,
    lower_bound,
    lower_rule,
    opaque_rules,
    taken_rule,
    upper_bound,
)
from policyc.ir.policy import (
    ANY_PEER,
    Action,
    AnyService,
    Direction,
    EndpointPeer,
    EndpointSelector,
    LabelSelector,
    Opaque,
    Operator,
    Peer,
    Policy,
    PolicySet,
    PortRange,
    Ports,
    Requirement,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.results.diff import DifferenceKind
from policyc.ir.semantics import Verdict, verdict
from policyc.ir.services import Protocol, Service
from policyc.ir.spans import Origin, Span
from policyc.ir.universe import Endpoint, Flow
from policyc.verifier.symbolic.differences import (
    kind_between,
    said,
)
from policyc.verifier.symbolic.opaque import (
    Case,
    comparison,
    readings,
)
from tests.property.length import examples

SEEDS = st.integers(min_value=0, max_value=2**32)
READINGS = 12
WAYS = (DifferenceKind.WIDENED, DifferenceKind.NARROWED)
ORIGIN = Origin(Span("p.yaml", 1, 1), "spec")
TWO = {"a": "10.0.0.1", "b": "10.0.0.2"}
PODS = tuple(
    Endpoint("shop", name, {"app": name}, {}, (ip_address(address),))
    for name, address in TWO.items()
)
OUTSIDE = ip_address("203.0.113.9")
SERVICES = (Service(6, 80), Service(6, 81))
FLOWS = tuple(
    Flow(src, dst, service, 4)
    for src, dst in ((*PODS,), (*PODS[::-1],), (PODS[0], OUTSIDE), (OUTSIDE, PODS[0]))
    for service in SERVICES
)
"""Every flow that the policies below can tell apart, but for a few."""


def pods(name: str) -> EndpointSelector:
    """The pods with one label."""
    return EndpointSelector(
        "shop", labels=LabelSelector((Requirement("app", Operator.IN, (name,)),))
    )


SUBJECTS = (pods("a"), pods("b"), EndpointSelector("shop"))
PEERS: tuple[Peer, ...] = (ANY_PEER, EndpointPeer(pods("a")), EndpointPeer(pods("b")))
PORTS: tuple[Ports, ...] = (AnyService(), AnyService(), PortRange(Protocol.TCP, 80, 80))


def drawn_rule(rng: random.Random, mode: TierMode, share: float) -> Rule:
    """A rule that may be opaque; with the notes and limits that rules have."""
    actions = [Action.ALLOW, Action.ALLOW, Action.DENY]
    if mode is TierMode.FIRST_MATCH:
        actions += [Action.PASS, Action.REJECT, Action.LOG]
    action = rng.choice(actions)
    rule = Rule(action, (rng.choice(PEERS),), (rng.choice(PORTS),), ORIGIN, log=rng.random() < 0.1)
    return made_opaque(rng, rule) if rng.random() < share else rule


def made_opaque(rng: random.Random, rule: Rule) -> Rule:
    """The rule as an opaque rule: one of its peers may be its certain match."""
    certain = replace(rule, peers=rng.choice(((), (), (EndpointPeer(pods("b")),))))
    widest = replace(rule, peers=tuple(dict.fromkeys((*rule.peers, *certain.peers))))
    opaque = Opaque(certain, widest, ("something",), rng.choice("abc"))
    return replace(lower_rule(replace(rule, opaque=opaque)), opaque=opaque)


def drawn_policies(rng: random.Random) -> PolicySet:
    """One or two tiers of one to three policies, dense enough that rules meet."""
    share = rng.choice((0.3, 0.5, 0.8))
    tiers = []
    for number in range(rng.choice((1, 1, 2))):
        mode = rng.choice(tuple(TierMode))
        policies = tuple(
            drawn_policy(rng, f"p{at}", mode, share) for at in range(rng.choice((1, 2, 3)))
        )
        unmatched = rng.choice((Action.DENY, Action.PASS))
        tiers.append(Tier(f"t{number}", mode, unmatched, policies))
    return PolicySet(tuple(tiers))


def drawn_policy(rng: random.Random, name: str, mode: TierMode, share: float) -> Policy:
    rules = [
        tuple(drawn_rule(rng, mode, share) for _ in range(rng.choice((0, 1, 2)))) for _ in Direction
    ]
    isolates = frozenset(d for d in Direction if rng.random() < 0.5)
    return Policy("NetworkPolicy", "shop", name, rng.choice(SUBJECTS), isolates, *rules, ORIGIN)


def edited(rng: random.Random, policies: PolicySet) -> PolicySet:
    """The same, or with one difference: a policy is gone or new, a rule is another, order changed."""
    tiers = list(policies.tiers)
    at = rng.randrange(len(tiers))
    tier = tiers[at]
    held = list(tier.policies)
    index = rng.randrange(len(held))
    match rng.randrange(6):
        case 0:
            return policies
        case 1:
            del held[index]
        case 2:
            held.insert(index, drawn_policy(rng, "new", tier.mode, 0.5))
        case 3:
            rng.shuffle(held)
        case _:
            held[index] = _with_another_rule(rng, held[index], tier.mode)
    tiers[at] = replace(tier, policies=tuple(held))
    return PolicySet(tuple(tiers))


def _with_another_rule(rng: random.Random, policy: Policy, mode: TierMode) -> Policy:
    direction = rng.choice(tuple(Direction))
    rules = list(policy.rules(direction))
    where = rng.randrange(len(rules) + 1)
    if where == len(rules) or rng.random() < 0.3:
        rules.insert(where, drawn_rule(rng, mode, 0.3))
    elif rng.random() < 0.5:
        del rules[where]
    else:
        rules[where] = drawn_rule(rng, mode, 0.5)
    return replace(policy, **{direction.value: tuple(rules)})


def content(rule: OpaqueRule) -> Hashable:
    policy = rule.policy
    return policy.subject, policy.hosts, rule.place.is_egress, rule.rule


def read(policies: PolicySet, taken: dict[Hashable, Taken]) -> PolicySet:
    """The policies under one reading of their opaque rules."""
    of = {rule.place: taken[content(rule)] for rule in opaque_rules(policies)}
    return chosen(policies, lambda place, rule: taken_rule(rule, of[place]))


def some_readings(rng: random.Random, *sets: PolicySet) -> Iterator[dict[Hashable, Taken]]:
    """Every reading, or as many as are drawn where there are more."""
    contents = list(dict.fromkeys(content(r) for policies in sets for r in opaque_rules(policies)))
    if 2 ** len(contents) <= READINGS:
        for taken in product(Taken, repeat=len(contents)):
            yield dict(zip(contents, taken, strict=True))
        return
    for _ in range(READINGS):
        yield {each: rng.choice(tuple(Taken)) for each in contents}


def compared(case: Case, flow: Flow, ignore_effects: bool) -> DifferenceKind | None:
    """How a case says that a flow changes; None where it does not, or does not count there."""
    kind = kind_between(verdict(case.before, flow), verdict(case.after, flow), ignore_effects)
    counts = {DifferenceKind.WIDENED: case.opens, DifferenceKind.NARROWED: case.closes}
    return kind if kind is not None and counts.get(kind, True) else None


@settings(max_examples=examples(200, 2), deadline=None)
@given(SEEDS)
def test_a_flow_that_changes_under_some_reading_changes_in_some_case(seed: int) -> None:
    rng = random.Random(seed)
    before = drawn_policies(rng)
    after = edited(rng, before)
    cases = comparison(before, after)
    is_shared = all(each.opens and each.closes for each in cases.possible)
    for flow in FLOWS:
        for taken in some_readings(rng, before, after):
            one, other = (verdict(read(side, taken), flow) for side in (before, after))
            kind = kind_between(one, other, ignore_effects=not is_shared)
            if kind is not None and (is_shared or kind in WAYS):
                found = [compared(each, flow, not is_shared) for each in cases.possible]
                assert kind in found, f"{flow} is {kind}"


@settings(max_examples=examples(200, 2), deadline=None)
@given(SEEDS)
def test_certain_results_hold_under_every_reading(seed: int) -> None:
    rng = random.Random(seed)
    before = drawn_policies(rng)
    after = edited(rng, before)
    certain = comparison(before, after).certain
    for flow in FLOWS:
        for each in certain:
            kind = compared(each, flow, True)
            if kind not in WAYS:
                continue
            for taken in some_readings(rng, before, after):
                one, other = (verdict(read(side, taken), flow) for side in (before, after))
                assert kind_between(one, other, True) is kind


@settings(max_examples=examples(200, 2), deadline=None)
@given(SEEDS)
def test_the_bounds_are_below_and_above_every_reading(seed: int) -> None:
    rng = random.Random(seed)
    policies = drawn_policies(rng)
    least, most = lower_bound(policies), upper_bound(policies)
    for flow in FLOWS:
        low, high = verdict(least, flow), verdict(most, flow)
        for taken in some_readings(rng, policies):
            found = verdict(read(policies, taken), flow)
            assert allowed(low) <= allowed(found) <= allowed(high)


def allowed(found: Verdict) -> frozenset[str]:
    """The ends that allow."""
    ends = {"egress": found.egress, "ingress": found.ingress}
    return frozenset(name for name, end in ends.items() if not end.action.is_deny)


@settings(max_examples=examples(200, 2), deadline=None)
@given(SEEDS)
def test_opaque_rules_are_enforced_at_the_lower_bound(seed: int) -> None:
    rng = random.Random(seed)
    policies = drawn_policies(rng)
    for flow in FLOWS:
        one, other = verdict(policies, flow), verdict(lower_bound(policies), flow)
        assert [said(e, False) for e in (one.egress, one.ingress)] == [
            said(e, False) for e in (other.egress, other.ingress)
        ]


@settings(max_examples=examples(200, 2), deadline=None)
@given(SEEDS)
def test_a_rule_that_counts_under_some_reading_counts_in_one_that_is_tried(seed: int) -> None:
    rng = random.Random(seed)
    policies = drawn_policies(rng)
    sets = readings(policies)
    places = list(plain_rules(policies))
    if sets is None or not places:
        return
    place = rng.choice(places)
    for flow in FLOWS:
        for taken in some_readings(rng, policies):
            if counts(read(policies, taken), place, flow):
                assert any(counts(each, place, flow) for each in sets)


def plain_rules(policies: PolicySet) -> Iterator[RulePlace]:
    """The rules that are understood."""
    for tier_at, tier in enumerate(policies.tiers):
        for at, policy in enumerate(tier.policies):
            for direction in Direction:
                for index, rule in enumerate(policy.rules(direction)):
                    if rule.opaque is None:
                        yield RulePlace(tier_at, at, direction is Direction.EGRESS, index)


def counts(policies: PolicySet, place: RulePlace, flow: Flow) -> bool:
    """Whether the flow meets something else without the rule."""
    tiers = list(policies.tiers)
    held = list(tiers[place.tier].policies)
    policy, direction = held[place.policy], place.direction
    rules = list(policy.rules(direction))
    del rules[place.index]
    held[place.policy] = replace(policy, **{direction.value: tuple(rules)})
    tiers[place.tier] = replace(tiers[place.tier], policies=tuple(held))
    one, other = verdict(policies, flow), verdict(PolicySet(tuple(tiers)), flow)
    return kind_between(one, other, False) is not None
