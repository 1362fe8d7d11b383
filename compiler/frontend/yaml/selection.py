# SPDX-License-Identifier: Apache-2.0
"""The files of a directory that a configuration selects: `paths` and `exclude` of .policyc.yaml."""

import os
import posixpath
import re
from collections.abc import Callable
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

from policyc.compiler.frontend.yaml import codes_found
from policyc.ir.diagnostics import Report
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.spans import Span

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_POLICY = re.compile(
    rb"kind[\"']?\s*:\s*[\"']?(\w*NetworkPolicy|ExtendedPolicy|Intent|Tier|\w*NetworkSet|HostEndpoint)\b"
)
"""A mention of a kind that policyc reads from -f."""


class Choice(Enum):
    """What becomes of a file in a directory."""

    READ = "read"
    EXCLUDED = "excluded"
    OUTSIDE = "outside of `paths`"


Choose = Callable[[str], Choice]
"""The choice about a file, by its path as the source gives it."""


@dataclass(frozen=True)
class Selection:
    """Which files of directories are read.

    `name` is the configuration's. `root` is the real path of the directory that all paths are relative
    to, and `prefix` its path from the root of its git repository. In a directory that contains one of
    `paths`, only `paths` are read. `exclude` has patterns as in .gitignore. A file that is named is
    always read.
    """

    name: str = ""
    root: str = ""
    prefix: str = ""
    paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.paths or self.exclude)

    def without_paths(self) -> "Selection":
        """The same exclusions for every directory, for objects of the cluster."""
        return Selection(self.name, self.root, self.prefix, (), self.exclude)

    def in_folder(self, folder: str) -> Choose:
        """For a directory of the file system; the files' paths begin with `folder`.

        A directory outside of `root` that does not contain it is taken for a copy of it.
        """
        real = os.path.realpath(folder)
        base = _plain(os.path.relpath(real, self.root))
        if _is_outside(base) and not _is_below(self.root, real):
            base = "."
        choose = self._below(base)
        return lambda file: choose(posixpath.normpath(f"{base}/{os.path.relpath(file, folder)}"))

    def in_commit(self, path: str) -> Choose:
        """For a directory of a commit; all paths are relative to the root of the repository."""
        prefix = self.prefix or "."
        choose = self._below(posixpath.relpath(path or ".", prefix))
        return lambda file: choose(posixpath.relpath(file, prefix))

    def _below(self, base: str) -> Choose:
        """For a directory, by paths relative to `root`."""
        narrowed = self.paths if self._narrows(base) else ()

        def choose(file: str) -> Choice:
            is_outside = _is_outside(file)
            if not is_outside and self.exclude and self._excluded.match_file(file):
                return Choice.EXCLUDED
            is_read = not narrowed or any(_is_below(file, path) for path in narrowed)
            return Choice.READ if is_read else Choice.OUTSIDE

        return choose

    def _narrows(self, base: str) -> bool:
        """Whether a directory contains one of `paths`, and is not inside one."""
        if any(_is_below(base, path) for path in self.paths):
            return False
        return _is_outside(base) or any(_is_below(path, base) for path in self.paths)

    @cached_property
    def _excluded(self) -> "GitIgnoreSpec":
        from pathspec import GitIgnoreSpec

        return GitIgnoreSpec.from_lines(self.exclude)


ALL_FILES = Selection()


def read_all(_file: str) -> Choice:
    """The choice without a configuration, and about files that are named."""
    return Choice.READ


class LeftOut:
    """The files of directories that are not read, and those among them that have a policy."""

    def __init__(self) -> None:
        self._n_files = 0
        self._with_policies: list[str] = []

    def keeps(self, choice: Choice, name: str, data: bytes) -> bool:
        """Whether a file is read; a file that is not is counted. `data` of an excluded one is unused."""
        if choice is Choice.READ:
            return True
        self._n_files += 1
        if choice is Choice.OUTSIDE and _POLICY.search(data):
            self._with_policies.append(name)
        return False

    def report(self, configuration: str, report: Report) -> None:
        """One line about the files; a warning about policies that `paths` leaves out."""
        where = Span(configuration, 0, 0)
        if self._n_files:
            files = "1 file" if self._n_files == 1 else f"{self._n_files} files"
            report.add(codes_found.EXCLUDED.at(where, files=files))
        if self._with_policies:
            first, n = min(self._with_policies), len(self._with_policies)
            more = f" and {n - 1} more" if n > 1 else ""
            finding = codes_found.OUTSIDE_PATHS.at(where, files=f"{first}{more}")
            report.add(finding.help("add their directory to `paths`, or to `exclude`"))


def _plain(path: str) -> str:
    return PurePath(path).as_posix()


def _is_outside(path: str) -> bool:
    return path == ".." or path.startswith("../")


def _is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or inside it; both are in normal form."""
    return folder == "." or path == folder or path.startswith(f"{folder.rstrip('/')}/")
