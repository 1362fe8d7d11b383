# SPDX-License-Identifier: Apache-2.0
"""Compiled code == reference semantics, flow by flow, and == the Decision IR, by the ten thousand.

Every layout is tried: all of it code, dense tables, searched tables. `hypothesis` draws a seed; what is
compared with the semantics is drawn from it in Python, batches are expanded from it by numpy.
"""

import random
from dataclasses import replace
from ipaddress import ip_address

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.backends.llvm.batch import Special, words
from policyc.ir.decide import decide
from policyc.ir.partition import partition
from policyc.ir.policy import Direction
from policyc.ir.semantics import verdict
from policyc.ir.universe import FAMILIES, Endpoint, Universe
from policyc.ir.vocabulary import vocabulary_of
from tests.property.cases import random_case
from tests.property.length import examples
from tests.property.native_engine import (
    LIMITS,
    NativeEngine,
    by_numpy,
    expand,
    wanted_of,
    with_hosts_network,
)
from tests.property.native_flows import (
    ends_of,
    flows_of,
)
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)
EXPANDED = 20_000


def check(seed: int) -> None:
    rng = random.Random(seed)
    case = tiered_case(rng) if rng.random() < 0.7 else random_case(rng)
    turned = tuple(with_hosts_network(rng, end) for end in case.universe.endpoints)
    case = replace(case, universe=Universe(turned, case.universe.nodes))
    decision = decide(case.policies, partition(vocabulary_of(case.policies), case.universe))
    ends = ends_of(case)
    flows = flows_of(case, rng, ends, 80)
    engine = NativeEngine(
        decision,
        [*ends, *((e, f.family) for f in flows for e in (f.src, f.dst))],
        rng.choice(LIMITS),
    )
    for flow, (out, into, allowed) in zip(flows, engine.verdicts(flows), strict=True):
        wanted = verdict(case.policies, flow)
        assert (out, into) == (wanted_of(wanted.egress), wanted_of(wanted.ingress)), f"{flow}"
        assert allowed is not wanted.action.is_deny, f"{flow}"
    compare_batches(engine, seed, rng)


def compare_batches(engine: NativeEngine, seed: int, rng: random.Random) -> None:
    decision, n_rules = engine.ends.decision, engine.native.layout.n_rules
    keys = sorted({lo for diagram in decision.diagrams for lo, _ in diagram})
    for family in FAMILIES:
        mine = [number for (_, f), number in engine.numbers.items() if f == family]
        if not mine:
            continue
        flows = expand(seed, mine, keys, EXPANDED)
        found = engine.native.verdicts(flows)
        for direction, seen in (
            (Direction.EGRESS, found.egress),
            (Direction.INGRESS, found.ingress),
        ):
            wanted = by_numpy(decision, engine.ends, flows, direction)
            is_ours = seen >> 1 < n_rules + Special.TO_ITSELF - 1
            assert is_ours.any()
            assert (seen == wanted)[is_ours].all()
        assert (found.allowed == (found.egress & found.ingress & 1)).all()
    _compare_classes(engine, rng)


def _compare_classes(engine: NativeEngine, rng: random.Random) -> None:
    """By class: rows and columns that no end of the flows need have."""
    decision = engine.ends.decision
    n_rows, n_columns = len(decision.atoms.rows), len(decision.atoms.columns)
    asked = [
        (rng.randrange(n_rows), rng.randrange(n_columns), rng.randrange(0x50100)) for _ in range(50)
    ]
    for direction in Direction:
        seen = engine.native.decide(
            direction, *(words(column) for column in zip(*asked, strict=True))
        )
        for (row, column, key), word in zip(asked, seen.tolist(), strict=True):
            action, rule = decision.decide(direction, row, column, key)
            assert word == rule << 1 | action


@settings(max_examples=examples(25, 2), deadline=None)
@given(SEEDS)
def test_compiled_code_gives_the_reference_verdict_and_rule(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(SEEDS)
def test_compiled_code_gives_the_reference_verdict_and_rule_at_length(seed: int) -> None:
    check(seed)


@settings(max_examples=examples(100), deadline=None)
@given(SEEDS)
def test_raw_addresses_are_the_ends_that_hold_them(seed: int) -> None:
    rng = random.Random(seed)
    case = tiered_case(rng)
    decision = decide(case.policies, partition(vocabulary_of(case.policies), case.universe))
    engine = NativeEngine(decision, [], rng.choice(LIMITS))
    holders: dict[object, Endpoint] = {}
    for end in case.universe.endpoints:
        for address in end.addresses:
            engine.ends.hold(address, end)
            holders[address] = end
    engine.native.__post_init__()  # the ends it knows are those of this moment
    for family in FAMILIES:
        bits = 32 if family == 4 else 128
        starts = [start for start, _ in engine.ends.book(family)]
        near = [start + step for start in starts for step in (-1, 0, 1)]
        tried = [a for a in near if 0 <= a < 1 << bits] + [rng.getrandbits(bits) for _ in range(50)]
        if family == 4:
            found = engine.native.find4(words(tried))
        else:
            halves = [(a >> 64, a & (1 << 64) - 1) for a in tried]
            found = engine.native.find6(
                *(np.array(half, np.uint64) for half in zip(*halves, strict=True))
            )
        for number, at in zip(tried, found.tolist(), strict=True):
            address = ip_address(number.to_bytes(bits // 8, "big"))
            wanted = engine.ends.add(holders.get(address, address), family)
            assert at == wanted, address
