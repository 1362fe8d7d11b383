# SPDX-License-Identifier: Apache-2.0
"""Excerpts have the lines of a rule or policy, from the disk, a commit or standard input."""

import os
import subprocess
from pathlib import Path

import pytest

from policyc.compiler.driver.report.excerpts import MOST, excerpt_of, excerpts_of
from policyc.compiler.driver.report.texts import STREAM, Texts, repositories_of
from policyc.ir.results.common import Place
from policyc.ir.spans import Span

LINES = tuple(
    """\
kind: A
---
kind: B
metadata:
  name: b
spec:
  ingress:
    - from: []
      ports:

        - port: 80
    - from: []

---
kind: C
""".splitlines()
)


def place(line: int, path: str = "spec.ingress[0]", file: str = "a.yaml") -> Place:
    return Place(Span(file, line, 1), path, "words")


def test_a_rule_ends_where_the_next_one_begins() -> None:
    found = excerpt_of(place(8), LINES)
    assert found is not None
    assert found.lines[-1] == "        - port: 80"
    assert (found.first, found.marked, found.n_more) == (6, (8, 11), 0)


def test_a_policy_is_its_document() -> None:
    found = excerpt_of(place(5, "metadata.name"), LINES)
    assert found is not None
    assert (found.lines[0], found.lines[-1]) == ("kind: B", "    - from: []")


def test_a_long_rule_counts_the_lines_that_are_left_out() -> None:
    lines = ("- from:", *("  - a" for _ in range(MOST + 4)))
    found = excerpt_of(place(1), lines)
    assert found is not None
    assert (len(found.lines), found.n_more) == (MOST, 5)


@pytest.mark.parametrize("line", [0, 99])
def test_a_line_that_the_file_lacks_has_no_excerpt(line: int) -> None:
    assert excerpt_of(place(line), LINES) is None


def test_standard_input_is_quoted() -> None:
    at = place(1, file=STREAM)
    found = excerpts_of([at], Texts(stdin=b"kind: A\n"))
    assert found[at.span].lines == ("kind: A",)


def test_a_file_that_cannot_be_read_again_has_no_excerpt(tmp_path: Path) -> None:
    assert excerpts_of([place(1, file=str(tmp_path / "gone.yaml"))], Texts()) == {}


def test_a_commit_is_quoted_and_not_the_file_of_now(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "a.yaml").write_text("kind: Old\n")
    for words in (["init", "-q"], ["add", "a.yaml"], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    (tmp_path / "a.yaml").write_text("kind: New\n")
    texts = Texts(repositories_of("git:HEAD", os.fspath(tmp_path / "a.yaml")))
    assert texts.lines("git:HEAD:a.yaml")[0] == "kind: Old"
