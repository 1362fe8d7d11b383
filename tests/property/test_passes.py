# SPDX-License-Identifier: Apache-2.0
"""Every pass keeps what it says that it keeps, flow by flow, by the reference semantics."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.ir.diagnostics import Report
from policyc.ir.intervals import IntervalSet
from policyc.ir.passes import PASSES
from policyc.ir.passes.cancel import Cancel
from policyc.ir.passes.enforceable import Enforceable
from policyc.ir.passes.ir_pass import IrPass, Keeps
from policyc.ir.passes.lower_hosts import LowerHosts
from policyc.ir.policy import Action, Direction, Policy, PolicySet, Rule
from policyc.ir.semantics import EndVerdict, end_verdict
from policyc.ir.universe import Endpoint, Flow
from tests.property.connection_cases import connection_case
from tests.property.length import examples
from tests.property.policy_mutations import mutated
from tests.property.sayable_policies import (
    sayable,
)

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def instance(kind: type[IrPass], rng: random.Random, policies: PolicySet) -> IrPass:
    """A pass with options that may do something to the policies."""
    if kind is Enforceable:
        return Enforceable(close=True, counts_rules=rng.random() < 0.5)
    if kind is LowerHosts:
        return LowerHosts(every_node=rng.random() < 0.7)
    if kind is Cancel:
        return Cancel(mutated(rng, policies) if policies.tiers else policies)
    return kind()


def with_source_ports(rng: random.Random, policies: PolicySet) -> PolicySet:
    """Some rules match source ports, which no table holds."""

    def of_rule(rule: Rule) -> Rule:
        asks = IntervalSet.of([(1000, 2000)]) if rng.random() < 0.3 else None
        return replace(rule, source_ports=asks)

    def of(policy: Policy) -> Policy:
        return replace(
            policy,
            ingress=tuple(map(of_rule, policy.ingress)),
            egress=tuple(map(of_rule, policy.egress)),
        )

    return PolicySet(tuple(replace(t, policies=tuple(map(of, t.policies))) for t in policies.tiers))


def ends(policies: PolicySet, flow: Flow) -> Iterator[tuple[bool, EndVerdict]]:
    """Whether the subject is a pod, and its verdict; egress first."""
    for direction, subject, peer in (
        (Direction.EGRESS, flow.src, flow.dst),
        (Direction.INGRESS, flow.dst, flow.src),
    ):
        yield isinstance(subject, Endpoint), end_verdict(policies, direction, subject, peer, flow)


def differs(one: PolicySet, other: PolicySet, flow: Flow) -> list[bool]:
    """At each end, whether the actions differ."""
    both = zip(ends(one, flow), ends(other, flow), strict=True)
    return [a.action is not b.action for (_, a), (_, b) in both]


def is_kept(made: IrPass, before: PolicySet, after: PolicySet, flow: Flow) -> bool:
    """Whether the property of the pass holds for a flow, at both ends."""
    both = zip(ends(before, flow), ends(after, flow), strict=True)
    pairs = [(pod, old, new) for (pod, old), (_, new) in both]
    match made.keeps:
        case Keeps.ACTIONS:
            return all(old.action is new.action for _, old, new in pairs)
        case Keeps.ACTIONS_OF_PODS:
            return all(old.action is new.action for pod, old, new in pairs if pod)
        case Keeps.DENIALS:
            return all(
                old.action is Action.ALLOW or new.action is not Action.ALLOW
                for _, old, new in pairs
            )
        case Keeps.CHANGES:
            assert isinstance(made, Cancel)
            other = made.other
            rest = Cancel(before).run(other, Report())
            return differs(before, other, flow) == differs(after, rest, flow)


@pytest.mark.parametrize("kind", PASSES, ids=lambda kind: kind.name)
@settings(max_examples=examples(200), deadline=None)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_a_pass_keeps_its_documented_property(kind: type[IrPass], seed: int) -> None:
    rng = random.Random(seed)
    case = connection_case(rng)
    policies = sayable(case.policies) if kind is LowerHosts else case.policies
    if kind is Enforceable:
        policies = with_source_ports(rng, policies)
    made = instance(kind, rng, policies)
    after = made.run(policies, Report())
    for flow in case.flows(rng, 40):
        sent = replace(flow, source_port=rng.choice((None, 1500, 3000)))
        assert is_kept(made, policies, after, sent if kind is Enforceable else flow), flow


@pytest.mark.parametrize("kind", PASSES, ids=lambda kind: kind.name)
def test_a_pass_does_something(kind: type[IrPass]) -> None:
    """A pass that gives its input back would keep everything."""
    for seed in range(200):
        rng = random.Random(seed)
        policies = with_source_ports(rng, sayable(connection_case(rng).policies))
        if instance(kind, rng, policies).run(policies, Report()) != policies:
            return
    pytest.fail(f"{kind.name} never changes anything")


def test_the_page_has_every_pass() -> None:
    """With the module's first words and what it keeps, in the order of `PASSES`."""
    rows = re.findall(r"^\| `([\w-]+)` \| .+ \| (.+) \|$", PAGE.read_text(), flags=re.MULTILINE)
    assert rows == [(kind.name, kind.keeps.value) for kind in PASSES]
