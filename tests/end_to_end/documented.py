# SPDX-License-Identifier: Apache-2.0
"""The commands of the documents, and a repository in which those that need no node run."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end.command import policyc_here

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / "docs/node").glob("*.md"),
]
TUTORIAL = ROOT / "docs" / "tutorial.md"
"""Its commands run in the repository that it makes (test_tutorial.py), and not alone."""


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
        line = re.sub(r"\s*(\|\||>).*", "", re.sub(r"<\([^)]*\)", "STREAM", self.line))
        line = line.replace("...", "")
        line = re.sub(r"(?<=\w)\|[\w|]+", "", re.sub(r"[\[\]]", " ", line))
        line = re.sub(r"\bN\b", "1", line)
        return shlex.split(line, comments=True)[1:]

    @property
    def runs_here(self) -> bool:
        """Whether it needs no node, no live cluster, no name that stands for any, and seconds only."""
        if self.page == TUTORIAL:
            return False
        words = self.words
        is_free = not any(re.fullmatch(r"[A-Z]+|.*\.\.\..*", word) for word in words)
        return is_free and words[0] not in ("node", "fuzz", "snapshot") and "--prove" not in words


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


def make_repository(folder: Path) -> None:
    """A repository with the files that the pages name: policies, a cluster, two versions, intents."""
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


def prepare(repository: Path, folder: Path) -> None:
    """Copies of the repository in which commands of a page run (`place_of`), and tools in `bin`."""
    (folder / "bin").mkdir()
    (folder / "bin" / "kustomize").write_text(KUSTOMIZE)
    (folder / "bin" / "kustomize").chmod(0o755)
    shutil.copytree(repository, folder / "here")
    shutil.copytree(repository, folder / "ordinary")
    for extra in ("examples", "old", "new", "calico", "cluster", "before.yaml", "after.yaml"):
        drop(folder / "ordinary" / extra)


def place_of(shown: Shown) -> str:
    """Where a command runs: one that reads the whole directory needs one without copies of policies."""
    is_whole = "." in shown.words or shown.words == ["diff", "git:origin/main"]
    return "ordinary" if is_whole else "here"
