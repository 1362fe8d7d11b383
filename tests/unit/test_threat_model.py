# SPDX-License-Identifier: Apache-2.0
"""docs/threat-model.md: each row names tests that are there, and each actor has a row."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threat-model.md"
ACTORS = ("pod", "tenant with API rights", "external host", "pull request's author", "node")
_NAMED = re.compile(r"`([\w/]+\.py)`")


def rows() -> list[tuple[str, ...]]:
    """The cells of each row: actor, attempt, what stops it, test."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")][2:]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def wrong(found: list[tuple[str, ...]]) -> list[str]:
    """Rows without a test, and tests that are not there. "same" is the row above."""
    faults, is_named = [], False
    for row in found:
        named = _NAMED.findall(row[-1])
        faults += [
            f"{name} is not there" for name in named if not (ROOT / "tests" / name).is_file()
        ]
        is_named = bool(named) or (row[-1] == "same" and is_named)
        if len(row) != 4 or not is_named:
            faults.append(f"no test: {row}")
    return faults


def test_each_row_names_tests_that_are_there() -> None:
    assert len(rows()) > 20
    assert wrong(rows()) == []


@pytest.mark.parametrize("actor", ACTORS)
def test_each_actor_has_a_row(actor: str) -> None:
    assert any(row[0] == actor for row in rows())


def test_each_attack_is_on_the_page() -> None:
    named = set(_NAMED.findall(PAGE.read_text()))
    there = {f"attacks/{each.name}" for each in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert there <= named


def test_the_check_sees_what_is_wrong() -> None:
    row = ("pod", "tries", "is stopped")
    assert wrong([(*row, "`attacks/test_none.py`")]) == ["attacks/test_none.py is not there"]
    assert (
        wrong([(*row, "same")]) == wrong([(*row, "")]).copy() or len(wrong([(*row, "same")])) == 1
    )
    assert wrong([(*row, "`attacks/test_marks.py`"), (*row, "same")]) == []
