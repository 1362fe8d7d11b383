# SPDX-License-Identifier: Apache-2.0
"""Which regions are shown if there is no room for all."""

import pytest

from policyc.ir.results.diff import DifferenceKind
from policyc.ir.results.turns import first_in_turns

OPENED, CLOSED, LATENT = (
    DifferenceKind.WIDENED,
    DifferenceKind.NARROWED,
    DifferenceKind.LATENT,
)
FOUND = [
    *((OPENED, "a", n) for n in range(5)),
    *((OPENED, "b", n) for n in range(2)),
    (CLOSED, "c", 0),
    *((LATENT, "a", n) for n in range(3)),
]


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        (0, []),
        (1, [(OPENED, "a", 0)]),
        (2, [(OPENED, "a", 0), (CLOSED, "c", 0)]),
        (3, [(OPENED, "a", 0), (OPENED, "b", 0), (CLOSED, "c", 0)]),
        (5, [(OPENED, "a", 0), (OPENED, "a", 1), (OPENED, "b", 0), (OPENED, "b", 1), (CLOSED, "c", 0)]),
        (9, [*FOUND[:8], FOUND[8]]),
        (None, FOUND),
    ],
)  # fmt: skip
def test_kinds_take_turns_and_so_do_subjects(
    limit: int | None, shown: list[tuple[DifferenceKind, str, int]]
) -> None:
    assert first_in_turns(FOUND, lambda each: each[:2], limit) == shown
