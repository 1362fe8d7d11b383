# SPDX-License-Identifier: Apache-2.0
"""Reference semantics == the loaded program, verdict by verdict and rule by rule."""

import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from policyc.compiler.driver.compile.target import (
    Backend,
    Target,
)
from policyc.ir.lookup import entry_of
from policyc.ir.plan import Counters
from policyc.ir.semantics import is_from_its_node, verdict
from policyc.ir.universe import Endpoint, Flow, end_name
from policyc.runtime.lab.topology import LabNode
from tests.property.cases import Case, random_case
from tests.property.kernel_engine import kernel_answers
from tests.property.length import examples
from tests.property.node_layouts import (
    LAYOUTS,
    known_part,
)
from tests.property.one_node import (
    node,
    tiered_on_one_node,
)

__all__ = ["node"]

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]
SEEDS = st.integers(min_value=0, max_value=2**32)
FLOWS = 300
TARGETS = (Target(), Target(Backend.LLVM), Target(counters=Counters.PACKETS))


def distinct_flows(case: Case, rng: random.Random) -> list[Flow]:
    """Flows that no connection of another one answers: portless protocols once per pair of ends."""
    seen: set[object] = set()
    out = []
    for flow in case.flows(rng, FLOWS):
        if flow.service.number not in (6, 17, 132):
            pair = frozenset((end_name(flow.src), end_name(flow.dst))), flow.service, flow.family
            if pair in seen:
                continue
            seen.add(pair)
        out.append(flow)
    return out


def expected(case: Case, flow: Flow) -> tuple[bool, list[tuple[str, tuple[str, ...], int]]]:
    """(passes, the rules that count it): ingress is evaluated only if egress allows."""
    answer = verdict(case.policies, flow)
    if end_name(flow.src) == end_name(flow.dst):
        return True, [("default-allow", (), 0)]
    if is_from_its_node(flow.src, flow.dst) and not answer.action.is_deny:
        return True, []  # nothing that policy says counts (A22)
    ends = []
    if isinstance(flow.src, Endpoint):
        ends.append(answer.egress)
    if isinstance(flow.dst, Endpoint) and not (ends and answer.egress.action.is_deny):
        ends.append(answer.ingress)
    rules = []
    for end in ends:
        entry = entry_of(end)
        line = entry.origins[0].span.line if entry.kind == "rule" else 0
        rules.append((entry.kind, entry.policies, line))
        rules += [(note.kind, note.policies, note.origins[0].span.line) for note in entry.notes]
    return not answer.action.is_deny, rules


def check(node: LabNode, seed: int, is_tiered: bool = False) -> None:
    rng = random.Random(seed)
    case = tiered_on_one_node(rng, node.name) if is_tiered else random_case(rng)
    flows = distinct_flows(case, rng)
    known, budgets, target = known_part(case, rng), rng.choice(LAYOUTS), rng.choice(TARGETS)
    with tempfile.TemporaryDirectory() as folder:
        answers = kernel_answers(node, case, known, flows, Path(folder), budgets, target)
    counted: Counter[tuple[str, tuple[str, ...], int]] = Counter()
    for flow, passed in zip(flows, answers.passed, strict=True):
        wanted, rules = expected(case, flow)
        assert passed == wanted, f"{flow}: by {rules}"
        counted.update(rules)
    assert answers.counts == dict(counted)


KERNEL = settings(
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@settings(KERNEL, max_examples=examples(25))
@given(seed=SEEDS)
def test_the_loaded_program_gives_the_reference_verdict_and_counts_its_rule(
    node: LabNode, seed: int
) -> None:
    check(node, seed)


@settings(KERNEL, max_examples=examples(20))
@given(seed=SEEDS)
def test_the_loaded_program_means_tiers_nodes_and_conditions_as_the_reference_does(
    node: LabNode, seed: int
) -> None:
    check(node, seed, is_tiered=True)


@pytest.mark.slow
@settings(KERNEL, max_examples=300)
@given(seed=SEEDS)
def test_the_loaded_program_means_tiers_as_the_reference_does_at_length(
    node: LabNode, seed: int
) -> None:
    check(node, seed, is_tiered=True)


@pytest.mark.slow
@settings(KERNEL, max_examples=400)
@given(seed=SEEDS)
def test_the_loaded_program_gives_the_reference_verdict_at_length(node: LabNode, seed: int) -> None:
    check(node, seed)
