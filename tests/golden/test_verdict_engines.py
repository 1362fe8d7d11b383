# SPDX-License-Identifier: Apache-2.0
"""Every engine below the reference semantics gives the written verdicts."""

import tempfile
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest

from policyc.backends.ebpf_c.frames import MEASURED, NO_CODE, Budgets
from policyc.backends.ebpf_c.layout import choose_layout
from policyc.compiler.driver.compile.pipeline import decide_all
from policyc.ir.lookup import end_decision
from policyc.ir.policy import Direction
from policyc.ir.semantics import as_seen, is_between_neighbours, is_from_its_node
from policyc.ir.universe import End, Endpoint, Flow, end_address, end_name
from policyc.runtime.lab.topology import Lab, LabEndpoint, LabNode
from policyc.verifier.decision.equivalence import prove_decision
from policyc.verifier.decision.outcome import Proved
from tests.golden.verdict_cases import ExpectedFlow, VerdictCase, engine_cases
from tests.property.cases import Case
from tests.property.kernel_engine import kernel_answers
from tests.property.map_engine import MapEngine
from tests.slices import one_in

MOST_PODS = 12
FIRST4, FIRST6 = IPv4Address("10.200.0.1"), IPv6Address("fd00:200::1")
CASES = pytest.mark.parametrize("case", engine_cases(), ids=lambda case: case.slug)


def seen(end: End, family: int) -> End | None:
    """An end as a packet shows it: a hostNetwork pod is its node, if it has an address (A21)."""
    return None if end_address(end, family) is None else as_seen(end)


def packets_of(case: VerdictCase) -> list[ExpectedFlow]:
    """The flows that are packets: both ends have addresses, and a pod of ours has a say."""
    return [
        expected
        for expected in case.flows
        if all(
            not isinstance(end, Endpoint) or end.address(expected.flow.family) is not None
            for end in (expected.flow.src, expected.flow.dst)
        )
    ]


def ends_to_ask(flow: Flow) -> list[tuple[Direction, Endpoint, End]]:
    """The ends that policy decides: the hooks answer for neighbours, a pod itself and its node."""
    if is_between_neighbours(flow):
        return []
    src, dst = seen(flow.src, flow.family), seen(flow.dst, flow.family)
    if src is None or dst is None or end_name(src) == end_name(dst):
        return []
    ends: list[tuple[Direction, Endpoint, End]] = []
    if isinstance(src, Endpoint):
        ends.append((Direction.EGRESS, src, dst))
    if isinstance(dst, Endpoint) and not is_from_its_node(flow.src, flow.dst):
        ends.append((Direction.INGRESS, dst, src))
    return ends


@CASES
def test_the_decision_ir_gives_the_written_verdict_and_is_proved(case: VerdictCase) -> None:
    decided = decide_all(case.policies, case.universe)
    assert isinstance(prove_decision(case.policies, case.universe, decided.decision), Proved)
    for expected in packets_of(case):
        entries = [
            end_decision(decided.decision, direction, subject, peer, expected.flow)
            for direction, subject, peer in ends_to_ask(expected.flow)
        ]
        word = "deny" if any(entry.action.is_deny for entry in entries) else "allow"
        assert word == expected.verdict, f"{case.title}: {expected.flow}"


@CASES
def test_the_node_s_tables_give_the_written_verdict(case: VerdictCase) -> None:
    decision = decide_all(case.policies, None).decision
    engine = MapEngine(decision, choose_layout(decision))
    for endpoint in case.universe.endpoints:
        if endpoint.addresses and not endpoint.host_network:
            engine.place(endpoint)
    for expected in packets_of(case):
        answers = [engine.decide(*end, expected.flow) for end in ends_to_ask(expected.flow)]
        word = "allow" if all(answer and answer[0] for answer in answers) else "deny"
        assert word == expected.verdict, f"{case.title}: {expected.flow}"


@pytest.fixture(scope="module")
def node() -> Iterator[LabNode]:
    """Devices and MACs; the addresses are those of each case."""
    pods = [LabEndpoint("lab", f"pod-{i}", FIRST4 + i, FIRST6 + i) for i in range(MOST_PODS)]
    with Lab(pods) as lab:
        yield lab.node


@pytest.mark.kernel
@pytest.mark.usefixtures("loads_of_children")
@pytest.mark.parametrize(
    "budgets",
    [pytest.param(MEASURED, id="code"), pytest.param(NO_CODE, id="tables", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("case", one_in(48, engine_cases()), ids=lambda case: case.slug)
def test_the_kernel_gives_the_written_verdict(
    case: VerdictCase, budgets: Budgets, node: LabNode
) -> None:
    written = [
        expected
        for expected in packets_of(case)
        if any(
            isinstance(end, Endpoint) and not end.host_network
            for end in (expected.flow.src, expected.flow.dst)
        )
        and not (isinstance(expected.flow.dst, Endpoint) and _is_outside(expected.flow))
    ]
    flows = [expected.flow for expected in written]
    with tempfile.TemporaryDirectory() as folder:
        answers = kernel_answers(
            node, Case(case.policies, case.universe), case.universe, flows, Path(folder), budgets
        )
    for expected, passed in zip(written, answers.passed, strict=True):
        assert passed == (expected.verdict == "allow"), f"{case.title}: {expected.flow}"


def _is_outside(flow: Flow) -> bool:
    """From no pod to a hostNetwork pod: no hook of ours sees it."""
    return (
        isinstance(flow.dst, Endpoint)
        and flow.dst.host_network
        and (not isinstance(flow.src, Endpoint) or flow.src.host_network)
    )
