# SPDX-License-Identifier: Apache-2.0
"""The files of directories that a configuration leaves out: `exclude` of .policyc.yaml."""

import os
import posixpath
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from policyc.compiler.frontend.yaml.codes_found import EXCLUDED
from policyc.ir.diagnostics import Report
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.spans import Span

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IsRead = Callable[[str], bool]
"""Whether a file of a directory is read, by its path as the source gives it."""


@dataclass(frozen=True)
class Selection:
    """Which files of directories are read.

    `exclude` has patterns as in .gitignore. They are about the files below `root`, the configuration's
    directory, and about the same files of commits of `repository`, the root of its git repository, empty
    if it is in none. Both are real paths. Files elsewhere, and files that are named, are always read.
    """

    name: str = ""
    root: str = ""
    repository: str = ""
    exclude: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.exclude)

    def in_folder(self, folder: str) -> IsRead:
        """For a directory of the file system; the files' paths begin with `folder`."""
        real = os.path.realpath(folder)

        def is_read(file: str) -> bool:
            place = f"{real}/{os.path.relpath(file, folder)}"
            return self._is_read(os.path.relpath(place, self.root))

        return is_read

    def in_commit(self, repository: str) -> IsRead:
        """For a commit of a repository, `.` being that of the working directory.

        The files' paths are relative to the root of the repository.
        """
        is_other = repository != "." and os.path.realpath(repository) != self.repository
        if is_other or not self.repository:
            return is_always_read
        prefix = os.path.relpath(self.root, self.repository)
        return lambda file: self._is_read(posixpath.relpath(file, prefix))

    def _is_read(self, file: str) -> bool:
        plain = posixpath.normpath(file)
        return plain.startswith("../") or not self._excluded.match_file(plain)

    @cached_property
    def _excluded(self) -> "GitIgnoreSpec":
        from pathspec import GitIgnoreSpec

        return GitIgnoreSpec.from_lines(self.exclude)


ALL_FILES = Selection()


def is_always_read(_file: str) -> bool:
    """The choice without a configuration."""
    return True


def report_excluded(configuration: str, number: int, report: Report) -> None:
    """One line about the files that were left out."""
    if number:
        files = "1 file" if number == 1 else f"{number} files"
        report.add(EXCLUDED.at(Span(configuration, 0, 0), files=files))
