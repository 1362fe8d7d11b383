# SPDX-License-Identifier: Apache-2.0
"""A node's bundle equals the semantics for the node's pods, including pods that are created later."""

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.backends.ebpf_c.layout import choose_layout
from policyc.compiler.driver.compile.pipeline import decide_all
from policyc.ir.lookup import entry_of
from policyc.ir.policy import Direction
from policyc.ir.restrict import local_subjects, restrict, rows_of
from policyc.ir.semantics import end_verdict
from policyc.ir.universe import Endpoint, Universe
from policyc.verifier.decision.equivalence import prove_decision
from policyc.verifier.decision.outcome import Proved
from policyc.verifier.decision.restriction import restriction_faults
from tests.property.cases import Case, random_case
from tests.property.length import examples
from tests.property.map_engine import MapEngine
from tests.property.node_layouts import (
    LAYOUTS,
)

SEEDS = st.integers(min_value=0, max_value=2**32)
HERE = "node-a"
NODES = (HERE, "node-b", "")


def spread_case(rng: random.Random) -> Case:
    """A random case whose pods are on two nodes, or on none yet."""
    case = random_case(rng)
    endpoints = (replace(e, node=rng.choice(NODES)) for e in case.universe.endpoints)
    return replace(case, universe=Universe(tuple(endpoints), case.universe.nodes))


def known(case: Case, rng: random.Random) -> Universe:
    """The pods that the compiler knows; the others are created later."""
    shown = tuple(e for e in case.universe.endpoints if rng.random() < 0.6)
    return Universe(shown, case.universe.nodes)


def pods_of(case: Case, subjects: frozenset[str]) -> list[Endpoint]:
    return [e for e in case.universe.endpoints if e.qualified_name in subjects]


@settings(max_examples=examples(100, 2), deadline=None)
@given(SEEDS)
def test_every_pod_of_the_node_has_the_verdicts_of_the_semantics(seed: int) -> None:
    rng = random.Random(seed)
    case = spread_case(rng)
    universe = known(case, rng)
    subjects = local_subjects(universe, HERE)
    decision = decide_all(case.policies, universe, (), subjects).decision
    assert isinstance(prove_decision(case.policies, universe, decision, subjects), Proved)
    engine = MapEngine(decision, choose_layout(decision, rng.choice(LAYOUTS)))
    engine.bundle.node = HERE
    for endpoint in rng.sample(case.universe.endpoints, len(case.universe.endpoints)):
        engine.place(endpoint)
    assert not engine.tables.refused()
    for flow in case.flows(rng, 40):
        for direction, subject, peer in (
            (Direction.EGRESS, flow.src, flow.dst),
            (Direction.INGRESS, flow.dst, flow.src),
        ):
            if not isinstance(subject, Endpoint) or subject.node == "node-b":
                continue
            seen = engine.decide(direction, subject, peer, flow)
            assert seen is not None
            wanted = entry_of(end_verdict(case.policies, direction, subject, peer, flow))
            assert seen[0] is not wanted.action.is_deny, f"{flow} {direction}"
            assert (seen[1]["kind"], seen[1]["policies"]) == (wanted.kind, list(wanted.policies))


@settings(max_examples=examples(60, 2), deadline=None)
@given(SEEDS)
def test_a_pod_of_another_node_takes_no_row(seed: int) -> None:
    rng = random.Random(seed)
    case = spread_case(rng)
    universe = known(case, rng)
    decision = decide_all(case.policies, universe, (), local_subjects(universe, HERE)).decision
    engine = MapEngine(decision, choose_layout(decision))
    engine.bundle.node = HERE
    for endpoint in case.universe.endpoints:
        engine.place(endpoint)
        rows = [at for name, at in engine.placed[endpoint.qualified_name].items() if "row" in name]
        assert all((at == 0) == (endpoint.node == "node-b") for at in rows)


@settings(max_examples=examples(60, 2), deadline=None)
@given(SEEDS)
def test_one_node_alone_is_the_same_as_its_part_of_all(seed: int) -> None:
    rng = random.Random(seed)
    case = spread_case(rng)
    whole = decide_all(case.policies, case.universe).decision
    for node in ("node-a", "node-b", "another"):
        subjects = local_subjects(case.universe, node)
        rows = rows_of(whole.atoms, pods_of(case, subjects))
        part = restrict(whole, rows, subjects)
        assert not list(restriction_faults(whole, part, subjects))
        alone = decide_all(case.policies, case.universe, (), subjects).decision
        assert alone == part
        assert alone.atoms.row_of.keys() <= subjects


@settings(max_examples=examples(60, 2), deadline=None)
@given(SEEDS)
def test_a_wrong_node_bundle_is_detected(seed: int) -> None:
    """Two cells of different meaning are exchanged, or a row or a pod stands elsewhere."""
    rng = random.Random(seed)
    case = spread_case(rng)
    whole = decide_all(case.policies, case.universe).decision
    subjects = local_subjects(case.universe, HERE)
    part = restrict(whole, rows_of(whole.atoms, pods_of(case, subjects)), subjects)
    wrong = []
    if len(part.cells) > 1:
        cells = (part.cells[1], part.cells[0], *part.cells[2:])
        wrong.append(replace(part, cells=cells))
        table = [list(row) for row in part.ingress]
        table[-1][0] = (table[-1][0] + 1) % len(part.cells)
        wrong.append(replace(part, ingress=tuple(tuple(row) for row in table)))
    rows = part.atoms.rows
    if len(rows) > 1:
        wrong.append(replace(part, atoms=replace(part.atoms, rows=(*rows[:-1], rows[0]))))
        wrong.append(replace(part, ingress=part.ingress[:-1]))
        moved = {name: (row + 1) % len(rows) for name, row in part.atoms.row_of.items()}
        if moved:
            wrong.append(replace(part, atoms=replace(part.atoms, row_of=moved)))
            wrong.append(replace(part, atoms=replace(part.atoms, row_of={})))
    wrong.append(replace(part, rules=part.rules[:-1]))
    for each in wrong:
        assert list(restriction_faults(whole, each, subjects))
