# SPDX-License-Identifier: Apache-2.0
"""What is called useless for every pod may be removed, and for what is not called so there is a flow."""

import random
from dataclasses import replace
from ipaddress import ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.driver.check.answers import (
    Answers,
    CheckOptions,
)
from policyc.compiler.driver.check.symbolic import useless_anywhere
from policyc.ir.bounds import RulePlace
from policyc.ir.peers import Network
from policyc.ir.policy import Policy, PolicySet
from policyc.ir.results.diff import DiffOutcome
from policyc.verifier.cluster.reads import Reads
from policyc.verifier.cluster.redundancy import Redundancy, Uselessness
from policyc.verifier.cluster.rows import RuleId
from policyc.verifier.cluster.sites import sites_of
from policyc.verifier.cluster.space import Space
from policyc.verifier.diff.symbolic import diff_symbolic
from policyc.verifier.redundancy.symbolic import (
    places_of_rules,
    without,
)
from policyc.verifier.symbolic.policy_equivalence import (
    Difference,
    GaveUp,
    Same,
    compare,
)
from tests.property.cases import random_case
from tests.property.cluster_flows import (
    known,
)
from tests.property.length import examples
from tests.property.policy_mutations import (
    with_notes,
)
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)
NETWORKS: tuple[Network, ...] = (ip_network("10.0.0.0/24"), ip_network("fd00::/16"))


def answered(policies: PolicySet, networks: tuple[Network, ...] = ()) -> Answers:
    answers, _ = useless_anywhere(policies, CheckOptions(True, networks), lambda _: None)
    assert not answers.undecided
    return answers


def is_same(policies: PolicySet, less: PolicySet) -> bool:
    """Decided without anything of what is tested; a difference has a flow that the semantics confirm."""
    found = compare(policies, less)
    assert not isinstance(found, GaveUp)
    assert isinstance(found, Same | Difference)
    return isinstance(found, Same)


def check(seed: int) -> None:
    rng = random.Random(seed)
    policies = with_notes(rng, tiered_case(rng, max_tiers=3, max_policies=3).policies)
    answers = answered(policies)
    places = places_of_rules(policies)

    def place(rule: RuleId) -> RulePlace:
        return places[id(rule.policy), rule.direction, rule.index]

    called = {place(each.rule): each.why for each in answers.useless}
    for each in places.values():
        assert is_same(policies, without(policies, [each])) == (each in called)
    together = [place(rule) for rule in answers.together]
    assert is_same(policies, without(policies, together))
    for each in called.keys() - set(together):
        assert not is_same(policies, without(policies, [*together, each]))
    for each, why in called.items():
        alone = only(policies, each)
        is_dead = is_same(alone, without(alone, [RulePlace(0, 0, each.is_egress, 0)]))
        assert (why is not Uselessness.DEAD) or is_dead


def only(policies: PolicySet, place: RulePlace) -> PolicySet:
    """One rule, its policy's only one, of a tier that isolates: it shows where it matches anything."""
    tier = policies.tiers[place.tier]
    policy = tier.policies[place.policy]
    rule = replace(policy.rules(place.direction)[place.index], log=True)
    kept = {"ingress": (), "egress": (), place.direction.value: (rule,)}
    return PolicySet((replace(tier, policies=(replace(policy, **kept),)),))


PARTS = 4
"""Of the examples: together they may take longer than one test may on a slow machine."""


@pytest.mark.parametrize("part", [pytest.param(0, marks=pytest.mark.slow), *range(1, PARTS)])
@settings(max_examples=examples(15, 15), deadline=None)
@given(seed=SEEDS)
def test_a_rule_is_useless_if_and_only_if_it_may_be_removed(part: int, seed: int) -> None:
    check(seed * PARTS + part)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=500, deadline=None)
@given(SEEDS)
def test_useless_rules_may_be_removed_at_length(seed: int) -> None:
    check(seed)


@settings(max_examples=examples(30, 10), deadline=None)
@given(SEEDS)
def test_pod_networks_are_respected(seed: int) -> None:
    rng = random.Random(seed)
    policies = tiered_case(rng, max_tiers=2, max_policies=3).policies
    answers = answered(policies, NETWORKS)
    places = places_of_rules(policies)
    called = {
        places[id(each.rule.policy), each.rule.direction, each.rule.index]
        for each in answers.useless
    }
    for each in places.values():
        found = diff_symbolic(policies, without(policies, [each]), networks=NETWORKS, most=1)
        is_equal = found.outcome is DiffOutcome.EQUAL and not found.differences
        assert is_equal or each not in called
        assert not is_equal or each in called or not found.queries


@settings(max_examples=examples(40, 20), deadline=None)
@given(SEEDS)
def test_symbolic_redundancy_holds_in_a_cluster(seed: int) -> None:
    rng = random.Random(seed)
    case = tiered_case(rng, max_tiers=3, max_policies=3)
    universe = known(case.universe)
    everywhere = {_key(each.rule) for each in answered(case.policies).useless}
    reads = Reads.of((case.policies,))
    tried = Redundancy(Space(sites_of(universe, universe, reads), reads), case.policies)
    assert everywhere <= {_key(each.rule) for each in tried.useless()}


def _key(rule: RuleId) -> object:
    return id(rule.policy), rule.direction, rule.index


@settings(max_examples=examples(40, 20), deadline=None)
@given(SEEDS)
def test_results_do_not_depend_on_the_order_of_rules(seed: int) -> None:
    """Of NetworkPolicies, which only allow: neither order means anything."""
    rng = random.Random(seed)
    policies = random_case(rng).policies
    mixed = PolicySet(
        tuple(
            replace(
                tier,
                policies=tuple(
                    _mixed(p, rng) for p in rng.sample(tier.policies, len(tier.policies))
                ),
            )
            for tier in policies.tiers
        )
    )
    assert _said(answered(policies)) == _said(answered(mixed))


def _mixed(policy: Policy, rng: random.Random) -> Policy:
    ingress, egress = (rng.sample(r, len(r)) for r in (policy.ingress, policy.egress))
    return replace(policy, ingress=tuple(ingress), egress=tuple(egress))


def _said(answers: Answers) -> list[str]:
    return sorted(
        f"{each.rule.policy.title} {each.rule.direction} {each.rule.rule}"
        for each in answers.useless
    )
