# SPDX-License-Identifier: Apache-2.0
"""Useless rules of every API, hosts included: held against a proof that shares nothing with theirs."""

from pathlib import Path

import pytest

from policyc.compiler.driver.check.answers import CheckOptions
from policyc.compiler.driver.check.symbolic import useless_anywhere
from policyc.compiler.frontend import PathSource, ReadOptions, read_policies
from policyc.verifier.redundancy.symbolic import (
    places_of_rules,
    without,
)
from policyc.verifier.symbolic.policy_equivalence import (
    Same,
    compare,
)

FOLDER = Path(__file__).parents[3] / "golden" / "policy_ir"
APIS = ("admin", "calico", "cilium", "cluster_network_policy", "mixed_calico", "mixed_cilium")


@pytest.mark.parametrize("api", [*APIS, "mixed_kubernetes"])
def test_useless_rules_are_reported(api: str) -> None:
    source = PathSource(str(FOLDER / api / "policies.yaml"))
    policies = read_policies([source], ReadOptions()).policies
    answers, _ = useless_anywhere(policies, CheckOptions(True), lambda _: None)
    assert not answers.undecided
    places = places_of_rules(policies)
    called = {places[id(u.rule.policy), u.rule.direction, u.rule.index] for u in answers.useless}
    for place in places.values():
        less = without(policies, [place])
        assert isinstance(compare(policies, less), Same) == (place in called), place
    together = [places[id(r.policy), r.direction, r.index] for r in answers.together]
    assert isinstance(compare(policies, without(policies, together)), Same)
