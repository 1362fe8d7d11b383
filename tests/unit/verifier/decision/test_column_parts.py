# SPDX-License-Identifier: Apache-2.0
"""Parts of columns: what each column says by itself, whatever rules there are, and in this order."""

import random

import pytest

from policyc.ir.bits import bits_of, members
from policyc.verifier.decision.column_parts import (
    CellPart,
    ColumnParts,
)


def plain(cells: list[tuple[int, int]], rules: list[int]) -> list[CellPart]:
    """Each column by itself: its cell, and the rules that match it. Parts by rule after rule."""
    columns_of: dict[tuple[int, tuple[bool, ...]], list[int]] = {}
    for at, (_, columns) in enumerate(cells):
        for column in members(columns):
            matched = tuple(bool(rule >> column & 1) for rule in rules)
            columns_of.setdefault((at, matched), []).append(column)
    return [
        (cells[at][0], sum(hit << rule for rule, hit in enumerate(matched)), bits_of(columns))
        for (at, matched), columns in sorted(columns_of.items())
    ]


def found(cells: list[tuple[int, int]], rules: list[int]) -> list[CellPart]:
    parts = ColumnParts(cells)
    for rule, columns in enumerate(rules):
        parts.match(rule, columns)
    return parts.found()


def random_cells(rng: random.Random, n_columns: int) -> list[tuple[int, int]]:
    """Some cells, by names in no order; most columns often have one."""
    names = rng.sample(range(100), rng.choice((1, 1, 2, 5, 30)))
    columns_of: dict[int, int] = {}
    for column in range(n_columns):
        name = names[0] if rng.random() < 0.7 else rng.choice(names)
        columns_of[name] = columns_of.get(name, 0) | 1 << column
    return list(columns_of.items())


def random_columns(rng: random.Random, n_columns: int, others: list[int]) -> int:
    every = (1 << n_columns) - 1
    few = bits_of([rng.randrange(n_columns) for _ in range(rng.choice((1, 1, 2, 5)))])
    lo = rng.randrange(n_columns)
    block = every >> lo << lo & (1 << lo + rng.randrange(n_columns)) - 1
    half = rng.getrandbits(n_columns)
    again = rng.choice(others) if others else 0
    one = rng.choice((few, few, few, block, half, again, again ^ few, every, 0))
    return every & ~one if rng.random() < 0.3 else one


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_parts_equal_the_columns(first: int) -> None:
    for seed in range(first, first + 100):
        rng = random.Random(seed)
        n_columns = rng.choice((1, 2, 7, 60, 200))
        cells = random_cells(rng, n_columns)
        rules: list[int] = []
        for _ in range(rng.choice((0, 1, 3, 20, 150))):
            rules.append(random_columns(rng, n_columns, rules))
        assert found(cells, rules) == plain(cells, rules), seed


def test_a_rule_for_each_column_and_one_for_all_make_a_part_of_each_column() -> None:
    n = 500
    every = (1 << n) - 1
    rules = [*(1 << column for column in range(n)), every]
    expected = [(9, 1 << n | 1 << column, 1 << column) for column in reversed(range(n))]
    assert found([(9, every)], rules) == expected


def test_cells_without_rules_are_the_parts() -> None:
    assert found([(4, 0b0110), (2, 0b1001)], []) == [(4, 0, 0b0110), (2, 0, 0b1001)]
