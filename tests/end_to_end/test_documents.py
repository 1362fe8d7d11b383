# SPDX-License-Identifier: Apache-2.0
"""Documented commands, links and paths exist; lines and rows are short."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from policyc.compiler.cli.main import COMMANDS
from tests.end_to_end.command import policyc_here

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CLAIMS = re.findall(r"`(pytest [^`]+)`", README + (ROOT / "docs" / "claims.md").read_text())
PAGES = sorted(
    p for p in ROOT.rglob("*.md") if not set(p.parts) & {".venv", "build", ".pytest_cache"}
)


def test_claims_have_commands() -> None:
    assert len(CLAIMS) >= 40


def test_the_readme_is_read_in_minutes() -> None:
    assert len(README.splitlines()) <= 100


def test_the_readme_shows_the_output_of_diff() -> None:
    """Line by line, in this order; it leaves some out."""
    shown = re.search(r"\$ policyc (diff .*)\n((?:    .*\n|\n)+)", README)
    assert shown
    code = policyc_here(*shlex.split(shown[1]), cwd=ROOT)
    said = iter(code.stdout.splitlines())
    assert code.returncode == 1
    for line in filter(None, shown[2].splitlines()):
        assert line.removeprefix("    ") in said, line


@cache
def written() -> tuple[str, ...]:
    """Every test function, as path and name; read from the files, as collecting them takes seconds."""
    return tuple(
        f"{path.relative_to(ROOT)}::{name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in re.findall(r"^def (test_\w+)", path.read_text(), flags=re.MULTILINE)
    )


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_s_tests_exist(claim: str) -> None:
    words = iter(shlex.split(claim)[1:])
    paths, named = list[str](), ""
    for word in words:
        if word == "-k":
            named = next(words)
        elif word == "-m":
            next(words)
        else:
            paths.append(word)
    assert all((ROOT / path).exists() for path in paths)
    of_paths = [test for test in written() if test.startswith(tuple(paths))]
    asked = Expression.compile(named or "test")
    assert any(
        asked.evaluate(lambda name, of=test: name.lower() in of.lower()) for test in of_paths
    )


def test_every_command_is_in_the_readme() -> None:
    for command in COMMANDS:
        assert f"policyc {command}" in README


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_link_targets_exist(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
        found = page.parent / target if target else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


WRITTEN = [page for page in PAGES if not {"golden", "benchmarks"} & set(page.parts)]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_are_short(page: Path) -> None:
    """Commands and their output have any length. Rows of tables have a limit of their own."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [each for each in prose.splitlines() if not each.startswith(("|", "    "))]
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_rows_of_tables_are_short(page: Path) -> None:
    """A longer text is a list or a section. Benchmarks write wider tables."""
    rows = [line for line in page.read_text().splitlines() if line.startswith("|")]
    assert [row for row in rows if len(row) > 160] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_paths_on_pages_for_contributors_exist(page: str) -> None:
    """Every path in the text, except paths in command lines."""
    named = re.findall(r"`([\w.*-]+(?:/[\w.*-]+)+)`", (ROOT / page).read_text())
    assert len(named) >= 10
    assert [each for each in named if not list(ROOT.glob(each))] == []


OF_NOW = [page for page in WRITTEN if page.name != "CHANGELOG.md"]
"""The pages that say how the project is; the changelog keeps the names of its day."""


@pytest.mark.parametrize("page", OF_NOW, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_of_tests_on_pages_exist(page: Path) -> None:
    named = re.findall(r"\btests/[\w/*-]+(?:\.[a-z]+)?", page.read_text())
    assert [each for each in named if not any(map(has_a_file, ROOT.glob(each)))] == []


def has_a_file(path: Path) -> bool:
    """Whether it is one, or has one below: a move leaves folders without a file behind."""
    below = path.rglob("*")
    return path.is_file() or any(p.is_file() and p.suffix != ".pyc" for p in below)
