# SPDX-License-Identifier: Apache-2.0
"""Where input comes from: files, directories, standard input, and objects in memory.

The one place of the front end that touches files; those of a commit are read by `sources_git`,
which is imported when there are some.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import BinaryIO

from policyc.compiler.frontend import codes
from policyc.ir.classes import dataclass
from policyc.ir.diagnostics import Report
from policyc.ir.spans import Span

SUFFIXES = (".yaml", ".yml", ".json")
INTENT_SUFFIX = ".intent"
STDIN_NAME = "<stdin>"
GIT_SCHEME = "git:"
MAX_BYTES = 256 << 20
"""More than any snapshot of a cluster has in one file; /dev/zero has it soon."""
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class PathSource:
    """A file, or a directory that is searched for YAML and JSON, subdirectories included."""

    path: str


@dataclass(frozen=True, slots=True)
class StreamSource:
    """A stream, such as standard input; read once."""

    stream: BinaryIO = field(compare=False)
    name: str = STDIN_NAME


@dataclass(frozen=True, slots=True)
class ObjectsSource:
    """Kubernetes objects as Python values; findings name them `name`, at line 0."""

    name: str
    objects: tuple[object, ...] = field(compare=False)


@dataclass(frozen=True, slots=True)
class GitSource:
    """A file or directory as it is in a commit; `path` counts from the root, "" is all of it.

    `repository` is a directory inside the repository.
    """

    repository: str
    revision: str
    path: str

    @property
    def name(self) -> str:
        """What findings call it."""
        return f"{GIT_SCHEME}{self.revision}:{self.path}"


FileSource = PathSource | StreamSource | GitSource
Source = FileSource | ObjectsSource


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that was read, and the SHA-256 of its bytes, for the bundle's manifest."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of one input; `path` is the file's, empty for a stream."""

    name: str
    data: bytes
    path: str = ""

    @property
    def input_file(self) -> InputFile:
        """What the manifest says of it."""
        return InputFile(self.name, hashlib.sha256(self.data).hexdigest())


def sources_of(arguments: Iterable[str], stdin: BinaryIO) -> tuple[Source, ...]:
    """The sources that arguments of `-f` name; `-` is standard input."""
    return tuple(StreamSource(stdin) if a == "-" else PathSource(a) for a in arguments)


def printable(path: str) -> str:
    """A path as it is shown and stored: bytes that are not UTF-8 are written in hexadecimal."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def contents(
    sources: Iterable[FileSource],
    report: Report,
    suffixes: tuple[str, ...] = SUFFIXES,
) -> Iterator[Content]:
    """The inputs, each file once, directories in sorted order; failures go to `report`.

    `suffixes` are the endings of the files that count inside a directory.
    """
    seen: set[str] = set()
    for source in sources:
        match source:
            case StreamSource(stream, name):
                yield from _bounded(stream, name, report)
            case GitSource():
                from policyc.compiler.frontend.sources_git import git_files

                for name, data in git_files(source, report, suffixes, MAX_BYTES):
                    if name not in seen:
                        seen.add(name)
                        yield Content(name, data)
            case PathSource(path):
                for file in files_of(path, report, suffixes):
                    real = os.path.realpath(file)
                    if real not in seen:
                        seen.add(real)
                        yield from _read(file, report)


def read_whole(source: PathSource | StreamSource, report: Report) -> bytes | None:
    """The bytes of one file or stream; None where it cannot be read, which is reported."""
    match source:
        case StreamSource(stream, name):
            found = next(_bounded(stream, name, report), None)
        case PathSource(path):
            found = next(_read(path, report), None)
    return None if found is None else found.data


def files_of(path: str, report: Report, suffixes: tuple[str, ...] = SUFFIXES) -> list[str]:
    """The files a path stands for: itself, or those in the directory it is."""
    if not Path(path).is_dir():
        return [path]
    before = len(report.findings)
    found = [
        os.path.join(folder, name)  # noqa: PTH118 - keeps the user's spelling of the path
        for folder, names in _folders(path, report)
        for name in names
        if name.endswith(suffixes)
    ]
    if not found and len(report.findings) == before:
        looked_for = ", ".join(f"*{suffix}" for suffix in suffixes)
        where = Span(printable(path), 0, 0)
        report.add(codes.NOTHING_HERE.at(where, looked_for=looked_for, name=printable(path)))
    return sorted(found)


def _folders(path: str, report: Report) -> Iterator[tuple[str, list[str]]]:
    """The directory and those below it, links followed but each directory entered once."""
    entered: set[str] = set()
    for folder, folders, names in os.walk(
        path, followlinks=True, onerror=lambda failure: _unreadable(failure, report)
    ):
        real = os.path.realpath(folder)
        if real in entered:
            folders.clear()
            continue
        entered.add(real)
        folders.sort()  # which of two links to a directory names it must not depend on the disk
        yield folder, names


def _read(path: str, report: Report) -> Iterator[Content]:
    """The bytes of a file, of a FIFO or of standard input by its path."""
    try:
        with Path(path).open("rb") as stream:
            if stat.S_ISBLK(os.fstat(stream.fileno()).st_mode):
                raise OSError(0, "a block device")
            yield from _bounded(stream, printable(path), report, path)
    except OSError as failure:
        _unreadable(failure, report, path)


def _bounded(stream: BinaryIO, name: str, report: Report, path: str = "") -> Iterator[Content]:
    """All of a stream, or a finding as soon as it is longer than any input is."""
    chunks: list[bytes] = []
    size = 0
    while chunk := stream.read(_CHUNK):
        size += len(chunk)
        if size > MAX_BYTES:
            finding = codes.TOO_LARGE.at(Span(name, 0, 0), name=name, limit=MAX_BYTES >> 20)
            report.add(finding.help("split it into several files"))
            return
        chunks.append(chunk)
    yield Content(name, b"".join(chunks), path)


def _unreadable(failure: OSError, report: Report, path: str = "") -> None:
    name = printable(path or str(failure.filename))
    span = Span(name, 0, 0)
    if isinstance(failure, FileNotFoundError):
        report.add(codes.NO_SUCH_FILE.at(span, name=name))
    else:
        reason = (failure.strerror or str(failure)).lower()
        report.add(codes.UNREADABLE.at(span, name=name, reason=reason))
