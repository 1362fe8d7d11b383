# SPDX-License-Identifier: Apache-2.0
"""The files of a commit in a temporary directory, for a tool that reads files.

A kustomization may refer to any directory of its repository, so the directory has the whole commit.
Attributes and filters of git do not apply. Submodules are left out. No link leads out of the directory.
"""

import os
import posixpath
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from policyc.compiler.frontend.yaml import codes_git, codes_links
from policyc.compiler.frontend.yaml.git_commits import whole_commit
from policyc.compiler.frontend.yaml.sources import GitSource, path_name
from policyc.ir.diagnostics import Report
from policyc.ir.spans import Span


@contextmanager
def commit_tree(source: GitSource, report: Report, max_bytes: int) -> Iterator[str | None]:
    """The path of a directory with the commit of a source; None after a failure, which is reported.

    The directory is removed at the end.
    """
    with tempfile.TemporaryDirectory(prefix="policyc-commit-") as folder:
        tree = os.path.realpath(folder)
        before = len(report.errors)
        _write(source, tree, report, max_bytes)
        yield tree if len(report.errors) == before else None


def without_tree(text: str, tree: str, source: GitSource) -> str:
    """A text in which paths of the directory are `git:REV:PATH`."""
    shown = source.commit_name
    return text.replace(f"{tree}/", shown).replace(tree, shown)


def _write(source: GitSource, tree: str, report: Report, max_bytes: int) -> None:
    """Write the files, and then the links: no file is written through a link."""
    links: list[tuple[str, bytes]] = []
    for path, is_link, data in whole_commit(source, report, max_bytes):
        if not _is_plain(path):
            _refuse(source, path, "its path is not that of a file", report)
        elif is_link:
            links.append((path, data))
        else:
            try:
                place = Path(tree, path)
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("xb") as file:
                    file.write(data)
            except OSError as failure:
                _refuse(source, path, (failure.strerror or str(failure)).lower(), report)
                return
    for path, target in links:
        try:
            Path(tree, path).parent.mkdir(parents=True, exist_ok=True)
            Path(tree, path).symlink_to(os.fsdecode(target))
        except (OSError, ValueError) as failure:
            _refuse(source, path, str(getattr(failure, "strerror", failure)).lower(), report)
            return
    for path, _ in links:
        if not f"{os.path.realpath(Path(tree, path))}/".startswith(f"{tree}/"):
            where = Span(_name(source, path), 0, 0)
            finding = codes_links.LINK_LEADS_OUT.at(
                where, name=path_name(path), folder=source.commit_name
            )
            report.add(finding.help(codes_links.LEADS_OUT_HINT))


def _is_plain(path: str) -> bool:
    """Whether a path stays below the root. Git itself writes no other path."""
    parts = path.split("/")
    return posixpath.normpath(path) == path and ".." not in parts and parts[0] != ""


def _refuse(source: GitSource, path: str, reason: str, report: Report) -> None:
    name = _name(source, path)
    report.add(codes_git.GIT_FAILED.at(Span(name, 0, 0), name=name, reason=reason))


def _name(source: GitSource, path: str) -> str:
    return f"{source.commit_name}{path_name(path)}"
