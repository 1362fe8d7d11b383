# SPDX-License-Identifier: Apache-2.0
"""The commands of the documents: each is one that policyc knows, and what needs no node runs."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from policyc.compiler.cli.main import cli
from tests.end_to_end.command import policyc_here

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / "docs/node").glob("*.md"),
]
NO_FILE = re.compile(r"(Path|File|Directory) '.*' does not exist")
"""What a command says where a document names a file that stands for any."""


@dataclass(frozen=True)
class Shown:
    """A command line of a page."""

    page: Path
    line: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.line}"

    @property
    def words(self) -> list[str]:
        """The words of a command, without shell syntax and with all optional arguments."""
        line = re.sub(r"<\([^)]*\)", "STREAM", self.line).replace("...", "")
        line = re.sub(r"(?<=\w)\|[\w|]+", "", re.sub(r"[\[\]]", " ", line))
        line = re.sub(r"\bN\b", "1", line)
        return shlex.split(line, comments=True)[1:]

    @property
    def runs_here(self) -> bool:
        """Whether it needs no node, no name that stands for any, and seconds only."""
        words = self.words
        is_free = not any(re.fullmatch(r"[A-Z]+|.*\.\.\..*", word) for word in words)
        return is_free and words[0] not in ("node", "fuzz") and "--prove" not in words


def shown_on(page: Path) -> Iterator[Shown]:
    """The commands of the fenced and the indented blocks of a page."""
    text = page.read_text()
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"(?:^    .*\n)+", text, flags=re.MULTILINE)
    for block in (*fenced, *indented):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            found = line.strip().removeprefix("$ ")
            if found.startswith("policyc "):
                yield Shown(page, found)


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


INTENT = """\
apiVersion: policyc.dev/v1alpha1
kind: Intent
metadata: {name: shop}
spec:
  intents: |
    never tcp/5432 from ns.env == "dev" to pod.app == "db"
"""
OVERLAY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: overlay, namespace: overlay}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""
KUSTOMIZE = '#!/bin/sh\n[ "$1" = build ] && exec /bin/cat "$2/overlay.yaml"\n'
"""Stands for kustomize: it prints the only file of the overlay."""


def drop(path: Path) -> None:
    """Remove a file, or a folder with all that is in it."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the files that the pages name: policies, a cluster, two versions, intents."""
    folder = tmp_path_factory.mktemp("repository")
    shutil.copytree(ROOT / "examples", folder / "examples")
    shop = folder / "examples" / "online-shop"
    for name in ("policies", "old", "new"):
        shutil.copytree(shop / "policies", folder / name)
    shutil.copytree(shop / "cluster", folder / "cluster")
    cluster = "\n---\n".join(path.read_text() for path in sorted((shop / "cluster").glob("*.yaml")))
    for name in ("before.yaml", "after.yaml"):
        (folder / name).write_text(cluster)
    (folder / "intents.yaml").write_text(INTENT)
    (folder / "calico").mkdir()
    calico = policyc_here("convert", "-f", "policies", "--to", "calico", cwd=folder)
    (folder / "calico" / "policies.yaml").write_text(calico.stdout)
    (folder / ".policyc.yaml").write_text("{}\n")
    (folder / "overlays" / "prod").mkdir(parents=True)
    (folder / "overlays" / "prod" / "overlay.yaml").write_text(OVERLAY)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "policies", ".policyc.yaml", "overlays"],
        ["commit", "-q", "-m", "policies"],
        ["update-ref", "refs/remotes/origin/main", "HEAD"],
    ):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_commands_without_a_node_run(
    page: Path, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order: later commands of a page read output of earlier ones."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kustomize").write_text(KUSTOMIZE)
    (tmp_path / "bin" / "kustomize").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    shutil.copytree(repository, tmp_path / "here")
    shutil.copytree(repository, tmp_path / "ordinary")
    for extra in ("examples", "old", "new", "calico", "cluster", "before.yaml", "after.yaml"):
        drop(tmp_path / "ordinary" / extra)
    for shown in shown_on(page):
        if shown.runs_here:
            is_whole = "." in shown.words or shown.words == ["diff", "git:origin/main"]
            folder = "ordinary" if is_whole else "here"
            done = policyc_here(*shown.words, cwd=tmp_path / folder)
            assert done.returncode in (0, 1), f"{shown}\n{done.stderr}"
            if "json" in shown.words and "-o" not in shown.words:
                json.loads(done.stdout)
