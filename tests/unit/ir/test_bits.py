# SPDX-License-Identifier: Apache-2.0
"""Sets of small numbers as Python integers."""

import pytest

from policyc.ir.bits import bits_of, bits_of_each, members


@pytest.mark.parametrize("found", [[], [0], [3, 1, 700], list(range(0, 900, 7))])
def test_members_lists_the_bits_of_a_set(found: list[int]) -> None:
    assert members(bits_of(found)) == sorted(found)


def test_each_value_has_the_places_where_it_stands() -> None:
    assert bits_of_each([]) == {}
    found = bits_of_each(at % 3 for at in range(100))
    assert list(found) == [0, 1, 2]
    assert all(members(found[value]) == list(range(value, 100, 3)) for value in found)
