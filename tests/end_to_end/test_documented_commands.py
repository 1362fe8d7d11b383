# SPDX-License-Identifier: Apache-2.0
"""The commands of the documents: each is one that policyc knows, and what needs no node runs."""

import json
import os
import re
from pathlib import Path

import click
import pytest

from policyc.compiler.cli.main import cli
from tests.end_to_end.command import policyc_here
from tests.end_to_end.documented import (
    PAGES,
    ROOT,
    Shown,
    make_repository,
    place_of,
    prepare,
    shown_on,
)

NO_FILE = re.compile(r"(Path|File|Directory) '.*' does not exist")
"""What a command says where a document names a file that stands for any."""
SHOWN = [each for page in PAGES for each in shown_on(page)]


def test_the_pages_show_commands() -> None:
    assert len(SHOWN) >= 60
    assert len([each for each in SHOWN if each.runs_here]) >= 25


@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_policyc_knows_the_command(shown: Shown) -> None:
    """Its name, its options and their values; files need not be there."""
    group: click.Command = cli
    words = shown.words
    context = click.Context(cli, info_name="policyc")
    while isinstance(group, click.Group):
        found = group.get_command(context, words[0])
        assert found, f"there is no command {words[0]}"
        group, words = found, words[1:]
    try:
        group.make_context("policyc", list(words), parent=context)
    except click.UsageError as error:
        assert NO_FILE.search(error.format_message()), error.format_message()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    make_repository(folder)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_commands_without_a_node_run(
    page: Path, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order: later commands of a page read output of earlier ones."""
    prepare(repository, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    for shown in shown_on(page):
        if shown.runs_here:
            done = policyc_here(*shown.words, cwd=tmp_path / place_of(shown))
            assert done.returncode in (0, 1), f"{shown}\n{done.stderr}"
            if "json" in shown.words and "-o" not in shown.words:
                json.loads(done.stdout)
