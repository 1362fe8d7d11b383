# SPDX-License-Identifier: Apache-2.0
"""What a direction does not read makes no difference: for the classes there are, and for any to come."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.driver.compile.pipeline import decide_all
from policyc.ir.bits import members
from policyc.ir.decision import leaf_of
from policyc.ir.distinguished_protocols import (
    distinguished_kinds,
    plain_key,
)
from policyc.ir.policy import Direction
from policyc.ir.services import ALL_SERVICES, Kind, kind_span
from policyc.ir.views import view_of
from tests.property.cases import Case, random_case
from tests.property.length import examples
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)


def some_case(rng: random.Random) -> Case:
    return tiered_case(rng) if rng.random() < 0.5 else random_case(rng)


@settings(max_examples=examples(150, 2))
@given(SEEDS)
def test_classes_that_a_direction_views_alike_behave_alike(seed: int) -> None:
    rng = random.Random(seed)
    case = some_case(rng)
    decision = decide_all(case.policies, case.universe if rng.random() < 0.7 else None).decision
    for direction in Direction:
        view = view_of(decision.tables, direction)
        table = decision.table(direction)
        atoms = decision.atoms
        rows = [view.row(row) for row in atoms.rows]
        columns = [view.column(column, atoms) for column in atoms.columns]
        seen: dict[object, int] = {}
        for r, row in enumerate(rows):
            for c, column in enumerate(columns):
                cell = seen.setdefault((row, column), table[r][c])
                assert decision.cells[cell] == decision.cells[table[r][c]]
                if not view.is_used:
                    assert decision.rules[leaf_of(decision.diagrams[decision.cells[cell].rule], 0)
                                          ].kind == "default-allow"  # fmt: skip


@settings(max_examples=examples(150, 2))
@given(SEEDS)
def test_a_protocol_that_no_rule_distinguishes_is_looked_up_without_ports(seed: int) -> None:
    rng = random.Random(seed)
    case = some_case(rng)
    decision = decide_all(case.policies, case.universe).decision
    told = distinguished_kinds(decision.tables, decision.atoms.vocabulary)
    for kind in set(Kind) - {Kind.OTHER} - told:
        ((lo, hi),) = kind_span(kind)
        for diagram in decision.diagrams:
            leaf = leaf_of(diagram, plain_key(kind))
            keys = {lo, hi, rng.randint(lo, hi), *(at for at, _ in diagram if lo <= at <= hi)}
            assert {leaf_of(diagram, key) for key in keys} == {leaf}


@given(st.integers(0, 2**200 - 1))
def test_members_are_the_bits_that_are_set(mask: int) -> None:
    assert members(mask) == [at for at in range(200) if mask >> at & 1]
    assert ALL_SERVICES.size > 3 * 65536
