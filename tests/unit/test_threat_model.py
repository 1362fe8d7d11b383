# SPDX-License-Identifier: Apache-2.0
"""docs/threat-model.md: attempts name their defence and tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threat-model.md"
ACTORS = ("pod", "tenant with API rights", "external host", "pull request's author", "node")
_ATTEMPT = re.compile(r"^- \*\*(?P<actor>.+?)\*\* (?P<text>.+?)(?=^- |^#|\Z)", re.M | re.S)
_NAMED = re.compile(r"`([\w/]+\.py)`")


def attempts(page: str) -> list[tuple[str, str]]:
    """(actor, text) of each attempt of the page."""
    return [(found["actor"], found["text"]) for found in _ATTEMPT.finditer(page)]


def wrong(text: str) -> list[str]:
    """The faults of one attempt: no defence, no test, or a test that does not exist."""
    defence, _, test = text.partition("*Test:*")
    named = _NAMED.findall(test)
    faults = [f"{name} does not exist" for name in named if not (ROOT / "tests" / name).is_file()]
    if "*Defence:*" not in defence:
        faults.append(f"no defence: {text}")
    if not named:
        faults.append(f"no test: {text}")
    return faults


def test_each_attempt_has_a_defence_and_tests_that_exist() -> None:
    found = attempts(PAGE.read_text())
    assert len(found) > 20
    assert [fault for _, text in found for fault in wrong(text)] == []


@pytest.mark.parametrize("actor", ACTORS)
def test_each_actor_has_an_attempt(actor: str) -> None:
    assert actor in {each for each, _ in attempts(PAGE.read_text())}


def test_the_page_names_each_test_file_of_attacks() -> None:
    named = set(_NAMED.findall(PAGE.read_text()))
    there = {f"attacks/{each.name}" for each in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert there <= named


def test_wrong_attempts_are_found() -> None:
    stopped = "tries.\n  *Defence:* Stopped. "
    assert wrong(f"{stopped}*Test:* `attacks/test_none.py`") == [
        "attacks/test_none.py does not exist"
    ]
    assert wrong(stopped) == [f"no test: {stopped}"]
    assert len(wrong("tries. *Test:* `attacks/test_marks.py`")) == 1
    assert wrong(f"{stopped}*Test:* `attacks/test_marks.py`") == []
    page = f"- **pod** {stopped}\n- **node** {stopped}\n## Heading\n"
    assert [actor for actor, _ in attempts(page)] == ["pod", "node"]
