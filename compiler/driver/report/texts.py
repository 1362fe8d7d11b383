# SPDX-License-Identifier: Apache-2.0
"""The text of the files that places name, read again: from the disk, a commit, or standard input."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from policyc.backends.report.text import source_lines
from policyc.compiler.frontend.yaml.git_commits import SCHEME, git_source
from policyc.compiler.frontend.yaml.sources import MAX_BYTES, Content, GitSource, contents
from policyc.ir.diagnostics import Report
from policyc.ir.errors import InputError

STREAM = "<stdin>"
"""The name of standard input in places."""
Lines = tuple[str, ...]


@dataclass
class Texts:
    """The lines of files by their names in places. `repositories` are those of the commits."""

    repositories: tuple[str, ...] = (".",)
    stdin: bytes = b""
    _known: dict[str, Lines] = field(default_factory=dict)

    def lines(self, file: str) -> Lines:
        """All lines of a file; none if it cannot be read again under its name."""
        if file not in self._known:
            self._known[file] = self._read(file)
        return self._known[file]

    def contents(self, files: Iterable[str]) -> tuple[Content, ...]:
        """The files that can be read again, as the front end reads them."""
        found = ((file, "\n".join(self.lines(file))) for file in dict.fromkeys(files))
        return tuple(Content(file, text.encode()) for file, text in found if text)

    def _read(self, file: str) -> Lines:
        if file == STREAM:
            return _split(self.stdin)
        if file.startswith(SCHEME):
            return self._of_commit(file)
        return tuple(source_lines(file))

    def _of_commit(self, file: str) -> Lines:
        revision, _, path = file.removeprefix(SCHEME).partition(":")
        for repository in self.repositories:
            source = GitSource(repository, revision, path)
            for found in contents([source], Report()):
                if found.name == file and len(found.data) <= MAX_BYTES:
                    return _split(found.data)
        return ()


def _split(data: bytes) -> Lines:
    text = data.decode("utf-8-sig", "replace")
    return tuple(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))


def repositories_of(*sides: str) -> tuple[str, ...]:
    """The repositories of the commits among the sides, as `diff` finds them; the current one last."""
    found = []
    for at, side in enumerate(sides):
        if side.startswith(SCHEME):
            others = [each for each in sides[:at] + sides[at + 1 :] if not _is_scheme(each)]
            found.append(_repository(side, others[0] if others else None))
    return tuple(dict.fromkeys([*filter(None, found), "."]))


def _is_scheme(side: str) -> bool:
    return side == "-" or side.startswith((SCHEME, "kustomize:", "helm:"))


def _repository(side: str, other: str | None) -> str:
    try:
        return git_source(side, other).repository
    except InputError:
        return ""
