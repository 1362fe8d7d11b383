# SPDX-License-Identifier: Apache-2.0
"""What is called removable may be removed, and what is not called so may not."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.ir.policy import PolicySet
from policyc.ir.results.diff import DiffOutcome
from policyc.verifier.cluster.connections import Comparison
from policyc.verifier.cluster.diff import Change, diff_cluster
from policyc.verifier.cluster.own_node import OwnNodeComparison
from policyc.verifier.cluster.reads import Reads
from policyc.verifier.cluster.redundancy import Redundancy, key_of
from policyc.verifier.cluster.sites import sites_of
from policyc.verifier.cluster.space import Space
from tests.property.cases import Case
from tests.property.cluster_flows import (
    flows_of,
    known,
)
from tests.property.length import examples
from tests.property.policy_mutations import (
    answers,
    with_notes,
)
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)


def check(seed: int) -> None:
    rng = random.Random(seed)
    case = tiered_case(rng, max_tiers=3, max_policies=3)
    case = replace(case, universe=known(case.universe))
    policies = with_notes(rng, case.policies)
    reads = Reads.of((policies,))
    space = Space(sites_of(case.universe, case.universe, reads), reads)
    redundancy = Redundancy(space, policies)
    useless = redundancy.useless()
    flows = flows_of(case, rng, 40)
    before = [answers(policies, flow) for flow in flows]

    def is_same(other: PolicySet) -> bool:
        of_own = OwnNodeComparison(space, policies, other).changes()
        return not (of_own or list(Comparison(space, policies, other).cells()))

    called = {key_of(each.rule) for each in useless}
    for rule in redundancy.all_rules():
        less = redundancy.without([rule])
        if key_of(rule) in called:
            assert [answers(less, flow) for flow in flows] == before
        assert is_same(less) == (key_of(rule) in called) or _only_unreal(case, policies, less)
    together = redundancy.together(useless)
    gone = redundancy.without(together)
    assert [answers(gone, flow) for flow in flows] == before
    assert (
        diff_cluster(Change(policies, case.universe), Change(gone, case.universe)).outcome
        is DiffOutcome.EQUAL
    )
    taken = {key_of(rule) for rule in together}
    for each in useless:
        if key_of(each.rule) not in taken:
            more = redundancy.without([*together, each.rule])
            assert not is_same(more)


def _only_unreal(case: Case, policies: PolicySet, less: PolicySet) -> bool:
    """The differing flows are impossible, for example of a family that no end of the class has."""
    before, after = Change(policies, case.universe), Change(less, case.universe)
    return diff_cluster(before, after, limit=None).differences == ()


@settings(max_examples=examples(100, 2), deadline=None)
@given(SEEDS)
def test_a_rule_is_redundant_if_and_only_if_it_may_be_removed(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(SEEDS)
def test_redundant_rules_may_be_removed_at_length(seed: int) -> None:
    check(seed)
