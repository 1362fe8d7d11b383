# SPDX-License-Identifier: Apache-2.0
"""Endpoints that the compiler has not seen get, on the node, what the reference semantics says."""

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.backends.ebpf_c.layout import choose_layout
from policyc.compiler.driver.pipeline import decide_all
from policyc.ir.lookup import entry_of
from policyc.ir.plan import Size, prefix_atoms
from policyc.ir.policy import Direction
from policyc.ir.semantics import end_verdict
from policyc.ir.universe import FAMILIES, Universe
from tests.property.cases import Case, random_case
from tests.property.map_engine import MapEngine

SEEDS = st.integers(min_value=0, max_value=2**32)


def known_part(case: Case, rng: random.Random) -> Universe | None:
    """What the compiler is shown: nothing, or some of the endpoints."""
    if rng.random() < 0.3:
        return None
    return Universe(tuple(e for e in case.universe.endpoints if rng.random() < 0.5))


@settings(max_examples=120)
@given(SEEDS)
def test_the_node_places_unseen_endpoints_as_the_semantics_says(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng)
    decision = decide_all(case.policies, known_part(case, rng)).decision
    engine = MapEngine(decision, choose_layout(decision))
    for endpoint in rng.sample(case.universe.endpoints, len(case.universe.endpoints)):
        engine.place(endpoint)
    for flow in case.flows(rng, 40):
        for direction, subject, peer in (
            (Direction.EGRESS, flow.src, flow.dst),
            (Direction.INGRESS, flow.dst, flow.src),
        ):
            seen = engine.decide(direction, subject, peer, flow)
            if seen is None:
                continue
            allowed, rule = seen
            wanted = entry_of(end_verdict(case.policies, direction, subject, peer, flow))
            assert allowed is not wanted.action.is_deny, f"{flow} {direction}"
            assert (rule["kind"], rule["policies"], rule["action"]) == (
                wanted.kind,
                list(wanted.policies),
                wanted.action.value,
            ), f"{flow} {direction}"
            if wanted.kind == "rule":
                assert rule["places"][0]["line"] == wanted.origins[0].span.line


@settings(max_examples=60)
@given(SEEDS)
def test_full_tables_fail_closed_and_say_so(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng)
    decision = decide_all(case.policies, None).decision
    plan = choose_layout(decision)
    full = replace(
        plan,
        rows=Size(plan.rows.used, plan.rows.used),
        columns=Size(plan.columns.used, plan.columns.used),
    )
    engine = MapEngine(decision, full)
    for endpoint in case.universe.endpoints:
        engine.place(endpoint)
    for name, placement in engine.placed.items():
        refused = name in engine.tables.refused
        endpoint = next(e for e in case.universe.endpoints if e.qualified_name == name)
        columns = {4: placement.column4, 6: placement.column6}
        lacking = any(columns[f] == 0 for f in FAMILIES if endpoint.address(f) is not None)
        assert refused == (placement.row == 0 or lacking)
    for flow in case.flows(rng, 20):
        for direction, subject, peer in (
            (Direction.EGRESS, flow.src, flow.dst),
            (Direction.INGRESS, flow.dst, flow.src),
        ):
            seen = engine.decide(direction, subject, peer, flow)
            wanted = end_verdict(case.policies, direction, subject, peer, flow)
            if seen is not None and seen[0]:
                assert not wanted.action.is_deny, "never open what the policies close"


@settings(max_examples=120)
@given(SEEDS)
def test_the_prefix_table_finds_the_atom_of_every_address(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng, max_policies=12)
    atoms = decide_all(case.policies, None).atoms
    for family in FAMILIES:
        runs = atoms.classifier.addresses[family]
        table = prefix_atoms(atoms.vocabulary.blocks, runs)
        edges = {n for lo, hi, _ in runs.runs() for n in (lo, hi, (lo + hi) // 2)}
        for number in edges:
            longest = max(
                (
                    p
                    for p, _ in table
                    if int(p.network_address) <= number <= int(p.broadcast_address)
                ),
                key=lambda p: p.prefixlen,
            )
            assert dict(table)[longest] == runs.atom_of(number)
