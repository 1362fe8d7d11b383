# SPDX-License-Identifier: Apache-2.0
"""The tests' own wait."""

import pytest

from tests.eventually import eventually


def test_eventually_returns_the_first_true_value() -> None:
    values = iter([0, 0, 7, 8])
    assert eventually(lambda: next(values), "a number") == 7


def test_eventually_fails_after_its_deadline_and_names_the_missing_condition() -> None:
    with pytest.raises(AssertionError, match=r"after 0\.05 s: a frame \(last seen: \[\]\)"):
        eventually(list, "a frame", seconds=0.05)
