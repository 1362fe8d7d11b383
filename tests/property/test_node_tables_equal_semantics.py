# SPDX-License-Identifier: Apache-2.0
"""Endpoints that the compiler has not seen get, on the node, what the reference semantics says."""

import random
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from policyc.backends.ebpf_c.layout import choose_layout
from policyc.backends.ebpf_c.seeds import make_seeds
from policyc.compiler.driver.compile.pipeline import decide_all
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import InternalError
from policyc.ir.lookup import entry_of
from policyc.ir.plan import (
    DirectionPlan,
    LookupPlan,
    Size,
    prefix_atoms,
)
from policyc.ir.policy import Direction
from policyc.ir.semantics import end_verdict
from policyc.ir.trees import depth_of
from policyc.ir.universe import FAMILIES, Endpoint, Node, end_name
from tests.property.cases import random_case
from tests.property.length import examples
from tests.property.map_engine import MapEngine
from tests.property.node_layouts import (
    LAYOUTS,
    known_part,
)

SEEDS = st.integers(min_value=0, max_value=2**32)


@settings(max_examples=examples(120, 2))
@given(SEEDS)
def test_the_node_places_unseen_endpoints_as_the_semantics_says(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng)
    decision = decide_all(case.policies, known_part(case, rng)).decision
    engine = MapEngine(decision, choose_layout(decision, rng.choice(LAYOUTS)))
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


def squeezed(decision: DecisionIR, plan: LookupPlan, rng: random.Random) -> LookupPlan:
    """The plan with hardly any room to spare, in every pool."""

    def size(full: Size, spare: tuple[int, ...]) -> Size:
        return Size(full.used, full.used + rng.choice(spare))

    longest = max(depth_of(len(diagram)) for diagram in decision.diagrams)

    def directed(each: DirectionPlan) -> DirectionPlan:
        if not each.is_used:
            return each
        rows, columns = size(each.rows, (0, 1, 2)), size(each.columns, (0, 1, 3))
        small = replace(each, rows=rows, columns=columns)
        return fewest_buckets(decision, plan, small) if each.buckets else small

    directions = {direction: directed(each) for direction, each in plan.directions.items()}
    return replace(
        plan,
        directions=directions,
        node_room=size(plan.node_room, (0, 1, 2, 5)),
        rules=size(plan.rules, (0, 1)),
        rounds=rng.choice((longest, longest + 1)),
    )


def fewest_buckets(
    decision: DecisionIR, plan: LookupPlan, directed: DirectionPlan
) -> DirectionPlan:
    """The direction with the fewest buckets that hold the compiler's entries."""
    buckets = 1
    while True:
        small = replace(directed, buckets=buckets)
        try:
            make_seeds(decision, replace(plan, directions={directed.direction: small}))
        except InternalError:
            buckets *= 2
        else:
            return small


@settings(max_examples=examples(200, 2))
@example(197025)  # a pod that comes second into a column with closed cells
@given(SEEDS)
def test_full_tables_allow_nothing_more_and_report_closed_pods(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng)
    decision = decide_all(case.policies, None).decision
    engine = MapEngine(
        decision, squeezed(decision, choose_layout(decision, rng.choice(LAYOUTS)), rng)
    )
    for endpoint in case.universe.endpoints:
        engine.place(endpoint)
    for flow in case.flows(rng, 20):
        for direction, subject, peer in (
            (Direction.EGRESS, flow.src, flow.dst),
            (Direction.INGRESS, flow.dst, flow.src),
        ):
            seen = engine.decide(direction, subject, peer, flow)
            wanted = end_verdict(case.policies, direction, subject, peer, flow)
            if seen is None:
                continue
            allowed = seen[0] and seen[1]["kind"] != "fail-closed"
            if wanted.action.is_deny:
                assert not allowed, "never open what the policies close"
            elif not allowed and end_name(subject) != end_name(
                peer
            ):  # which no policy decides (A23)
                ends = {end_name(end) for end in (subject, peer) if isinstance(end, Endpoint)}
                refused = set(engine.tables.refused())
                nodes = {f"node {end.name}" for end in (subject, peer) if isinstance(end, Node)}
                assert (ends | nodes) & refused, "closed without a word"


@settings(max_examples=examples(120, 2))
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
