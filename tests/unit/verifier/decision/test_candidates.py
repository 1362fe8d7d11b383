# SPDX-License-Identifier: Apache-2.0
"""The candidate selectors of an endpoint include all that select it, and few others."""

import random

import pytest

from policyc.ir.matching import selects
from policyc.ir.selectors import EndpointSelector, LabelSelector, Operator, Requirement
from policyc.ir.universe import Endpoint
from policyc.ir.vocabulary import vocabulary_of
from policyc.verifier.decision.candidates import Candidates
from tests.property.cases import random_case
from tests.property.tiered_cases import tiered_case


def asked(selectors: tuple[EndpointSelector, ...], endpoint: Endpoint) -> list[EndpointSelector]:
    found = list(Candidates(selectors).of(endpoint))
    assert all(selectors[bit] is selector for bit, selector in found)
    return [selector for _, selector in found]


@pytest.mark.parametrize("make", [random_case, tiered_case])
def test_every_selecting_policy_is_a_candidate(make: type) -> None:
    for seed in range(300):
        case = make(random.Random(seed))
        selectors = tuple(vocabulary_of(case.policies).selectors)
        for endpoint in case.universe.endpoints:
            found = asked(selectors, endpoint)
            for selector in selectors:
                assert selector in found or not selects(selector, endpoint), seed


def one_of(key: str, *values: str) -> LabelSelector:
    return LabelSelector((Requirement(key, Operator.IN, values),))


def test_one_selector_for_each_app_gives_few_candidates() -> None:
    apps = [EndpointSelector("shop", labels=one_of("app", f"app-{at}")) for at in range(50)]
    teams = [EndpointSelector(None, one_of("team", f"team-{at}")) for at in range(50)]
    everyone = EndpointSelector()
    found = asked(
        (*apps, *teams, everyone),
        Endpoint("shop", "pod", {"app": "app-7", "role": "web"}, {"team": "team-3"}),
    )
    assert set(found) == {apps[7], teams[3], everyone}


def test_the_rarest_requirement_selects_candidates() -> None:
    both = [
        EndpointSelector(
            "shop",
            labels=LabelSelector(
                (*one_of("env", "prod").requirements, *one_of("app", name).requirements)
            ),
        )
        for name in ("a", "b", "c")
    ]
    assert asked(tuple(both), Endpoint("shop", "pod", {"env": "prod", "app": "b"})) == [both[1]]


def test_a_list_of_values_is_found_by_each_of_them() -> None:
    either = EndpointSelector(None, labels=one_of("app", "a", "b"))
    never = EndpointSelector(None, labels=one_of("app"))
    for value, expected in (("a", [either]), ("b", [either]), ("c", [])):
        assert asked((either, never), Endpoint("shop", "pod", {"app": value})) == expected
