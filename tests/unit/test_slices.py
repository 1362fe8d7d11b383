# SPDX-License-Identifier: Apache-2.0
"""The cases of `make test` cover the values of a test's parameters."""

import itertools
import random

import pytest

from tests.slices import covering


def product(*sizes: int) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, sizes)))


@pytest.mark.parametrize("sizes", [(5,), (2, 7), (6, 1), (2, 2, 2), (3, 2, 4, 2)])
def test_every_value_is_covered(sizes: tuple[int, ...]) -> None:
    cases = product(*sizes)
    kept = [cases[at] for at in covering(cases)]
    for axis, size in enumerate(sizes):
        assert {case[axis] for case in kept} == set(range(size))


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2, 4, 2), (2, 6, 2)])
def test_every_pair_of_three_or_more_axes_is_covered(sizes: tuple[int, ...]) -> None:
    cases = product(*sizes)
    kept = [cases[at] for at in covering(cases)]
    assert len(kept) < len(cases)
    for one, other in itertools.combinations(range(len(sizes)), 2):
        pairs = {(case[one], case[other]) for case in kept}
        assert pairs == set(product(sizes[one], sizes[other]))


def test_cases_of_one_axis_all_stay() -> None:
    assert covering(product(9)) == set(range(9))


def test_axes_that_change_together_are_one() -> None:
    """As with `parametrize(("where", "ends"), ...)`: the pairs of both are no pairs of values."""
    cases = [(at, at, family) for at in range(5) for family in range(2)]
    assert len(covering(cases)) == 5


def test_values_of_a_short_axis_take_turns() -> None:
    cases = product(8, 2)
    families = [cases[at][1] for at in covering(cases)]
    assert families.count(0) == families.count(1) == 4


def test_cases_that_do_not_exist_are_not_wanted() -> None:
    cases = random.Random(1).sample(product(3, 3, 3), 12)
    kept = [cases[at] for at in covering(cases)]
    for one, other in itertools.combinations(range(3), 2):
        assert {(c[one], c[other]) for c in kept} == {(c[one], c[other]) for c in cases}


def test_an_axis_that_stands_alone_has_no_pairs() -> None:
    cases = product(5, 3, 2)
    kept = [cases[at] for at in covering(cases, alone={2})]
    assert len(kept) == 5
    assert {case[2] for case in kept} == {0, 1}


def test_pairs_of_the_other_axes_are_covered_beside_one_that_stands_alone() -> None:
    cases = product(2, 3, 4, 2)
    kept = [cases[at] for at in covering(cases, alone={3})]
    for one, other in itertools.combinations(range(3), 2):
        assert len({(case[one], case[other]) for case in kept}) == (2, 3, 4)[one] * (2, 3, 4)[other]
    assert {case[3] for case in kept} == {0, 1}


def test_an_axis_of_one_value_makes_no_pairs() -> None:
    cases = [(*case, 0) for case in product(2, 3)]
    assert len(covering(cases)) == 3
