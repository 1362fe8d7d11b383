# SPDX-License-Identifier: Apache-2.0
"""The policies of tests/golden/verdict mean the same in every API that has words for them."""

import os
from dataclasses import replace
from io import BytesIO

import pytest

from policyc.backends.policies.target import InexpressibleError
from policyc.compiler.driver.compare.convert import (
    TARGETS,
    to_yaml,
)
from policyc.compiler.frontend import ReadOptions, StreamSource, read_policies
from policyc.ir.policy import NEVER, NO_ENDPOINT, Policy, PolicySet
from policyc.verifier.symbolic.policy_equivalence import (
    Same,
    compare,
)
from tests.golden.verdict_cases import load_cases
from tests.property.length import AT_LENGTH

AT_LEAST = {"calico": 140, "extended": 140, "clusternetworkpolicy": 95, "networkpolicy": 70}
"""How many of the cases a target has words for, so that these tests are about something."""


def without_hosts(policies: PolicySet) -> PolicySet:
    """Global policies of Calico's, about pods alone: the output is read without host endpoints."""

    def of(policy: Policy) -> Policy:
        return policy if policy.subject == NO_ENDPOINT else replace(policy, hosts=NEVER)

    return PolicySet(tuple(replace(t, policies=tuple(map(of, t.policies))) for t in policies.tiers))


@pytest.mark.parametrize(("target", "at_least"), AT_LEAST.items())
def test_the_policies_of_every_case_become_the_same_or_are_refused(
    target: str, at_least: int
) -> None:
    n_written = 0
    step = 1 if os.environ.get(AT_LENGTH) else 4
    for case in load_cases()[::step]:
        policies = without_hosts(case.policies)
        try:
            text = to_yaml(TARGETS[target](policies))
        except InexpressibleError:
            continue
        found = read_policies([StreamSource(BytesIO(text.encode()))], ReadOptions(allow_empty=True))
        assert isinstance(compare(policies, without_hosts(found.policies)), Same), case.title
        n_written += 1
    assert n_written >= at_least // step
