# SPDX-License-Identifier: Apache-2.0
"""The files of a directory that a configuration selects: `paths` and `exclude` of .policyc.yaml."""

import os
import posixpath
from collections.abc import Callable
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

from policyc.ir.fast_dataclass import dataclass

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

Takes = Callable[[str], bool]
"""Whether a file is read, by its path as the source gives it."""


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

    def in_folder(self, folder: str) -> Takes:
        """For a directory of the file system; the files' paths begin with `folder`.

        A directory outside of `root` that does not contain it is taken for a copy of it.
        """
        real = os.path.realpath(folder)
        base = _plain(os.path.relpath(real, self.root))
        if _is_outside(base) and not _is_below(self.root, real):
            base = "."
        taken = self._below(base)
        return lambda file: taken(posixpath.normpath(f"{base}/{os.path.relpath(file, folder)}"))

    def in_commit(self, path: str) -> Takes:
        """For a directory of a commit; all paths are relative to the root of the repository."""
        prefix = self.prefix or "."
        taken = self._below(posixpath.relpath(path or ".", prefix))
        return lambda file: taken(posixpath.relpath(file, prefix))

    def _below(self, base: str) -> Takes:
        """For a directory, by paths relative to `root`."""
        narrowed = self.paths if self._narrows(base) else ()

        def takes(file: str) -> bool:
            if _is_outside(file):
                return not narrowed
            if narrowed and not any(_is_below(file, path) for path in narrowed):
                return False
            return not (self.exclude and self._excluded.match_file(file))

        return takes

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


def _plain(path: str) -> str:
    return PurePath(path).as_posix()


def _is_outside(path: str) -> bool:
    return path == ".." or path.startswith("../")


def _is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or inside it; both are in normal form."""
    return folder == "." or path == folder or path.startswith(f"{folder.rstrip('/')}/")
