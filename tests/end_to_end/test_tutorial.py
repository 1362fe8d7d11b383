# SPDX-License-Identifier: Apache-2.0
"""The tutorial in a new repository: its files are written, its commands run, its outputs compared."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
WRITE = re.compile(r"Write\s+`([^`]+)`")


def steps() -> Iterator[tuple[str, str]]:
    """("$ command", its output) and ("write PATH", its text), in the order of the page."""
    text, at = PAGE.read_text(), 0
    for block in BLOCK.finditer(text):
        before, at = text[at : block.start()], block.end()
        if block[1] == "console":
            for command in re.split(r"^(?=\$ )", block[2], flags=re.MULTILINE)[1:]:
                line, _, output = command.partition("\n")
                yield line, output
        else:
            path = WRITE.findall(before)
            assert path, f"the page does not say where this is written:\n{block[2]}"
            yield f"write {path[-1]}", block[2]


def matches(output: str, shown: str) -> bool:
    """Whether an output is as shown, where lines may be folded, and `...` stands for any lines."""
    parts = re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)
    words = [r"\s+".join(map(re.escape, part.split())) + r"\s*" for part in parts]
    return re.fullmatch(r"(?:.*\n)*?\s*".join(words), output) is not None


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """The environment of the commands: policyc is that of this checkout, git has an author."""
    command = tmp_path / "bin" / "policyc"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m policyc.compiler.cli "$@"\n')
    command.chmod(0o755)
    author = {f"GIT_{role}_{what}": "a@example.org" for role in ("AUTHOR", "COMMITTER")
              for what in ("NAME", "EMAIL")}  # fmt: skip
    return {"PATH": f"{command.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), **author}


def test_the_tutorial_works_as_written(tmp_path: Path, variables: dict[str, str]) -> None:
    folder, done = tmp_path, 0
    for what, text in steps():
        if what.startswith("write "):
            path = folder / what.removeprefix("write ")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            continue
        found = subprocess.run(
            ["bash", "-c", what.removeprefix("$ ")],
            cwd=folder, env=variables, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert matches(found.stdout, text), f"{what}\n{found.stdout}\n{found.stderr}"
        folder = tmp_path / "shop"
        done += 1
    assert done > 12


def test_outputs_are_compared() -> None:
    assert matches("a\nb\nc\n", "a\n...\nc\n")
    assert matches("a\nc\n", "a\n...\n")
    assert not matches("a\nb\nc\n", "a\nc\n")
    assert not matches("a\nb\n", "a\n")
    assert matches("a b c\n", "a b\n  c\n")
    assert not matches("a b c\n", "a b\n  d\n")
