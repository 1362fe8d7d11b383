# SPDX-License-Identifier: Apache-2.0
"""Sources of input: files, directories, standard input, and objects in memory.

Only this module of the front end touches files, together with `sources_folder` for directories.
`git_commits` reads the files of a commit and `rendering` runs a tool; both are imported on first use.

A path that the user names may be a link, a FIFO or a device. Inside a directory only regular files are
read, because its author may be untrusted.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.yaml.folders import (
    not_regular,
    open_regular,
    regular_files,
)
from policyc.compiler.frontend.yaml.selection import (
    ALL_FILES,
    Selection,
    is_always_read,
    report_excluded,
)
from policyc.ir.diagnostics import Report
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.spans import Span

SUFFIXES = (".yaml", ".yml", ".json")
INTENT_SUFFIX = ".intent"
STDIN = "-"
STDIN_NAME = "<stdin>"
GIT_SCHEME = "git:"
MAX_BYTES = 256 << 20
"""The size limit: larger than any file of a cluster snapshot; /dev/zero reaches it soon."""
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class PathSource:
    """A file, or a directory that is searched for YAML and JSON, subdirectories included."""

    path: str


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A stream, such as standard input; read once. `is_found`: it is a file found in a directory."""

    stream: BinaryIO = field(compare=False)
    name: str = STDIN_NAME
    is_found: bool = False


@dataclass(frozen=True, slots=True)
class ObjectsSource:
    """Kubernetes objects as Python values; findings name them `name`, at line 0."""

    name: str
    objects: tuple[object, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class GitSource:
    """A file or directory as it is in a commit; `path` is relative to the root, "" is all of it.

    `repository` is a directory inside the repository. `may_be_missing`: a path that the commit lacks is
    a warning.
    """

    repository: str
    revision: str
    path: str
    may_be_missing: bool = False

    @property
    def commit_name(self) -> str:
        """The beginning of its files' names in findings."""
        return f"{GIT_SCHEME}{self.revision}:"

    @property
    def name(self) -> str:
        """Its name in findings."""
        return f"{self.commit_name}{self.path}"


class Tool(Enum):
    """A tool that renders manifests; its value is the scheme of the sources it renders."""

    KUSTOMIZE = "kustomize"
    HELM = "helm"


@dataclass(frozen=True, slots=True)
class ChartOptions:
    """The options of `helm template`: the namespace of the release, and files of values."""

    namespace: str = "default"
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RenderedSource:
    """The output of a tool for a kustomization or chart: `place` in the work tree, or in a commit."""

    tool: Tool
    place: str
    chart: ChartOptions = ChartOptions()
    commit: GitSource | None = None

    @property
    def shown(self) -> str:
        """The place as findings show it: a path, or `git:REV:PATH`."""
        return self.commit.name if self.commit else path_name(self.place)

    @property
    def name(self) -> str:
        """Its name in findings, which is not the name of a file."""
        return f"<{self.tool.value} {self.shown}>"


FileSource = PathSource | StreamSource | GitSource | RenderedSource
Source = FileSource | ObjectsSource


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that was read, and the SHA-256 of its bytes, for the bundle's manifest."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of one input; `path` is the file's, empty for a stream.

    `is_found`: the file was found in a directory, and the user did not name it.
    """

    name: str
    data: bytes
    path: str = ""
    is_found: bool = False

    @property
    def input_file(self) -> InputFile:
        """The manifest's entry about it."""
        return InputFile(self.name, hashlib.sha256(self.data).hexdigest())


def sources_of(arguments: Iterable[str], stdin: BinaryIO) -> tuple[Source, ...]:
    """The sources that arguments of `-f` name; `-` is standard input."""
    return tuple(StreamSource(stdin) if a == STDIN else PathSource(a) for a in arguments)


def is_stdin_repeated(*groups: Sequence[str]) -> bool:
    """Whether one group names standard input twice; each group may read all of it once."""
    return any(group.count(STDIN) > 1 for group in groups)


def path_name(path: str) -> str:
    """A path as it is shown and stored: bytes that are not UTF-8 are written in hexadecimal."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def contents(
    sources: Iterable[FileSource],
    report: Report,
    suffixes: tuple[str, ...] = SUFFIXES,
    selection: Selection = ALL_FILES,
) -> Iterator[Content]:
    """The inputs, each file once, directories in sorted order; failures go to `report`.

    `suffixes` are the endings of the files that count inside a directory, and `selection` chooses among
    them.
    """
    seen: set[str] = set()
    n_excluded = 0
    for source in sources:
        match source:
            case StreamSource(stream, name, is_found):
                yield from _bounded(stream, name, report, is_found=is_found)
            case GitSource():
                is_read = selection.in_commit(source.repository) if selection else is_always_read
                for content in _of_commit(source, report, suffixes):
                    if content.name in seen:
                        continue
                    path = content.name.removeprefix(source.commit_name)
                    if content.is_found and not is_read(path):
                        n_excluded += 1
                        continue
                    seen.add(content.name)
                    yield content
            case RenderedSource():
                from policyc.compiler.frontend.yaml.rendering import rendered

                if source.name not in seen:
                    seen.add(source.name)
                    output = rendered(source, report, MAX_BYTES)
                    if output is not None:
                        yield Content(source.name, output)
            case PathSource(path):
                is_inside = Path(path).is_dir()
                is_read = selection.in_folder(path) if selection and is_inside else is_always_read
                for file in files_of(path, report, suffixes):
                    real = os.path.realpath(file)
                    if real in seen:
                        continue
                    if not is_read(file):
                        n_excluded += 1
                        continue
                    seen.add(real)
                    yield from _read_inside(file, report) if is_inside else _read(file, report)
    report_excluded(selection.name, n_excluded, report)


def _of_commit(source: GitSource, report: Report, suffixes: tuple[str, ...]) -> Iterator[Content]:
    from policyc.compiler.frontend.yaml.git_commits import git_files

    for name, data in git_files(source, report, suffixes, MAX_BYTES):
        yield Content(name, data, is_found=name != source.name)


def read_whole(source: PathSource | StreamSource, report: Report) -> bytes | None:
    """The bytes of one file or stream; None if it cannot be read, which is reported."""
    match source:
        case StreamSource(stream, name):
            found = next(_bounded(stream, name, report), None)
        case PathSource(path):
            found = next(_read(path, report), None)
    return None if found is None else found.data


def read_found(path: str, report: Report) -> bytes | None:
    """The bytes of a file that no argument names; None if it is not regular, which is reported."""
    found = next(_read_inside(path, report), None)
    return None if found is None else found.data


def files_of(path: str, report: Report, suffixes: tuple[str, ...] = SUFFIXES) -> list[str]:
    """The files of a path: itself, or those in the directory."""
    if not Path(path).is_dir():
        return [path]
    before = len(report.errors)
    found = regular_files(
        path, report, suffixes, path_name, lambda failure: _unreadable(failure, report)
    )
    if not found and len(report.errors) == before:
        looked_for = ", ".join(f"*{suffix}" for suffix in suffixes)
        where = Span(path_name(path), 0, 0)
        report.add(codes.NOTHING_HERE.at(where, looked_for=looked_for, name=path_name(path)))
    return sorted(found)


def _read_inside(path: str, report: Report) -> Iterator[Content]:
    """The bytes of a file found in a directory."""
    try:
        mode = os.lstat(path).st_mode
        if not stat.S_ISREG(mode):
            report.add(not_regular(path_name(path), mode))
            return
        stream, mode = open_regular(path)
        with stream:
            if stat.S_ISREG(mode):
                yield from _bounded(stream, path_name(path), report, path, is_found=True)
            else:
                report.add(not_regular(path_name(path), mode))
    except OSError as failure:
        _unreadable(failure, report, path)


def _read(path: str, report: Report) -> Iterator[Content]:
    """The bytes of a file, of a FIFO or of standard input by its path."""
    try:
        with Path(path).open("rb") as stream:
            if stat.S_ISBLK(os.fstat(stream.fileno()).st_mode):
                raise OSError(0, "a block device")
            yield from _bounded(stream, path_name(path), report, path)
    except OSError as failure:
        _unreadable(failure, report, path)


def _bounded(
    stream: BinaryIO, name: str, report: Report, path: str = "", *, is_found: bool = False
) -> Iterator[Content]:
    """All bytes of a stream, or a finding as soon as it exceeds the size limit."""
    chunks: list[bytes] = []
    size = 0
    while chunk := stream.read(_CHUNK):
        size += len(chunk)
        if size > MAX_BYTES:
            finding = codes.TOO_LARGE.at(Span(name, 0, 0), name=name, limit=MAX_BYTES >> 20)
            report.add(finding.help("split it into several files"))
            return
        chunks.append(chunk)
    yield Content(name, b"".join(chunks), path, is_found)


def _unreadable(failure: OSError, report: Report, path: str = "") -> None:
    name = path_name(path or str(failure.filename))
    span = Span(name, 0, 0)
    if isinstance(failure, FileNotFoundError):
        report.add(codes.NO_SUCH_FILE.at(span, name=name))
    else:
        reason = (failure.strerror or str(failure)).lower()
        report.add(codes.UNREADABLE.at(span, name=name, reason=reason))
