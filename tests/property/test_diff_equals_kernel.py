# SPDX-License-Identifier: Apache-2.0
"""What a diff shows is what the kernel does: both sides loaded, each witness sent through both."""

import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from policyc.backends.ebpf_c.frames import NO_CODE, Budgets
from policyc.ir.policy import PolicySet
from policyc.ir.results.diff import Difference, DifferenceKind
from policyc.ir.semantics import verdict
from policyc.ir.services import Kind
from policyc.ir.universe import Endpoint, Flow, Node, Universe, end_name
from policyc.runtime.lab.topology import LabNode
from policyc.verifier.cluster.diff import Change, diff_cluster
from policyc.verifier.diff.symbolic import diff_symbolic
from tests.property.cases import Case, random_case
from tests.property.kernel_engine import kernel_answers
from tests.property.length import examples
from tests.property.one_node import (
    node,
    tiered_on_one_node,
)
from tests.property.policy_mutations import (
    mutated,
)

__all__ = ["node"]
pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]
SEEDS = st.integers(min_value=0, max_value=2**32)
REQUESTS = {Kind.ICMP: (8, 13), Kind.ICMPV6: (128,)}
"""ICMP messages that begin something; the connection table, not policy, judges the others."""
WHOLE_HEADERS = (47, 50, 89)
"""Protocols whose packets the engine can make: GRE, ESP, OSPF; many others are headers of IPv6."""
PASSED = {
    DifferenceKind.WIDENED: (False, True),
    DifferenceKind.NARROWED: (True, False),
}


def can_be_sent(flow: Flow) -> bool:
    """The engine can make its first packet, and a pod of the lab is one of its ends."""
    if not (isinstance(flow.src, Endpoint) or isinstance(flow.dst, Endpoint)):
        return False
    match flow.service.kind:
        case Kind.ICMP | Kind.ICMPV6 as kind:
            return flow.service.value >> 8 in REQUESTS[kind]
        case Kind.OTHER:
            return flow.service.number in WHOLE_HEADERS
        case _:
            return True


def distinct(differences: Iterable[Difference]) -> Iterator[Difference]:
    """Flows with distinct conntrack entries: of a protocol without ports, one for each pair of ends."""
    seen: set[object] = set()
    for difference in differences:
        flow = difference.witness.flow
        pair = frozenset((end_name(flow.src), end_name(flow.dst))), flow.service.number, flow.family
        if flow.service.number not in (6, 17, 132) and pair in seen:
            continue
        seen.add(pair)
        yield difference


def passes(
    node: LabNode, policies: PolicySet, universe: Universe, flows: Sequence[Flow], knows: bool
) -> list[bool]:
    """Whether each flow's first packet passes in the kernel; both ends' pods are on the node."""
    case = Case(policies, universe)
    budgets = Budgets() if knows else NO_CODE
    with tempfile.TemporaryDirectory() as folder:
        known = universe if knows else None
        return kernel_answers(node, case, known, flows, Path(folder), budgets).passed


def confirm(
    node: LabNode,
    sets: tuple[PolicySet, PolicySet],
    universe: Universe,
    differences: Sequence[Difference],
    knows: bool,
) -> Counter[DifferenceKind]:
    """The kernel's verdicts on the witnesses are as the diff says; how many of each kind."""
    sent = list(distinct(d for d in differences if can_be_sent(d.witness.flow)))
    if not sent:
        return Counter()
    flows = [d.witness.flow for d in sent]
    before, after = (passes(node, each, universe, flows, knows) for each in sets)
    for difference, was, now in zip(sent, before, after, strict=True):
        flow = difference.witness.flow
        wanted = PASSED.get(difference.kind)
        if wanted is None:  # what a connection meets is a denial before and after, or neither
            wanted = tuple(not verdict(each, flow).action.is_deny for each in sets)  # type: ignore[assignment]
        assert (was, now) == wanted, f"{difference.kind}: {flow}"
    return Counter(d.kind for d in sent)


def change_of(rng: random.Random, case: Case) -> tuple[PolicySet, PolicySet]:
    before, after = case.policies, case.policies
    for _ in range(rng.randint(1, 3) if before.tiers else 0):
        after = mutated(rng, after)
    return before, after


def check_cluster(node: LabNode, seed: int) -> Counter[DifferenceKind]:
    rng = random.Random(seed)
    case = tiered_on_one_node(rng, node.name) if rng.random() < 0.6 else random_case(rng)
    before, after = change_of(rng, case)
    found = diff_cluster(
        Change(before, case.universe), Change(after, case.universe), limit=None
    ).differences
    return confirm(node, (before, after), case.universe, found, rng.random() < 0.5)


def check_symbolic(node: LabNode, seed: int) -> Counter[DifferenceKind]:
    """Every witness in a universe of its own, its hypothetical pods made real."""
    rng = random.Random(seed)
    before, after = change_of(rng, random_case(rng, max_policies=5))
    total: Counter[DifferenceKind] = Counter()
    for difference in diff_symbolic(before, after, most=3).differences[:3]:
        real = made_real(node, difference)
        flow = real.witness.flow
        pods = tuple(e for e in (flow.src, flow.dst) if isinstance(e, Endpoint))
        nodes = tuple(e for e in (flow.src, flow.dst) if isinstance(e, Node))
        universe = Universe(tuple(sorted(pods, key=lambda e: e.qualified_name)), nodes)
        total += confirm(node, (before, after), universe, [real], rng.random() < 0.5)
    return total


def made_real(node: LabNode, difference: Difference) -> Difference:
    """The witness with its pods on the lab's node: NetworkPolicies do not read where a pod runs."""
    flow = difference.witness.flow
    here = Node(node.name, {}, (ip_address("10.255.0.1"), ip_address("fdff::1")))

    def on_node(end: object) -> object:
        if isinstance(end, Endpoint):
            return replace(end, node=here.name, its_node=here)
        return end

    ends = {"src": on_node(flow.src), "dst": on_node(flow.dst)}
    return replace(
        difference,
        witness=replace(difference.witness, flow=replace(flow, **ends)),  # type: ignore[arg-type]
    )


KERNEL = settings(
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@settings(KERNEL, max_examples=examples(40))
@given(seed=SEEDS)
def test_the_kernel_confirms_witnesses_over_a_cluster(node: LabNode, seed: int) -> None:
    check_cluster(node, seed)


@settings(KERNEL, max_examples=examples(5, 2))
@given(seed=SEEDS)
def test_the_kernel_confirms_symbolic_witnesses(node: LabNode, seed: int) -> None:
    check_symbolic(node, seed)


RICH = (6, 13, 27, 37, 39, 44)
"""Seeds with many kinds of difference. Where the drawn cases change, those that follow are enough."""


@pytest.mark.slow
def test_witnesses_of_every_kind_were_sent(node: LabNode) -> None:
    total: Counter[DifferenceKind] = Counter()
    wanted = (DifferenceKind.WIDENED, DifferenceKind.NARROWED, DifferenceKind.LATENT)
    for seed in (*RICH, *range(150)):
        total += check_cluster(node, seed)
        if all(total[kind] >= examples(4, 2) for kind in wanted):
            return
    raise AssertionError(f"too few of a kind: {dict(total)}")


@pytest.mark.slow
@settings(KERNEL, max_examples=250)
@given(seed=SEEDS)
def test_the_kernel_confirms_witnesses_over_a_cluster_at_length(node: LabNode, seed: int) -> None:
    check_cluster(node, seed)


@pytest.mark.slow
@settings(KERNEL, max_examples=100)
@given(seed=SEEDS)
def test_the_kernel_confirms_symbolic_witnesses_at_length(node: LabNode, seed: int) -> None:
    check_symbolic(node, seed)
