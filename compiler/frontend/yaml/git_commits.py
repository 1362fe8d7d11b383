# SPDX-License-Identifier: Apache-2.0
"""Input from git: the files of a commit, by `git:REV` or `git:REV:PATH`.

Only `git rev-parse`, `ls-tree` and `cat-file` are run: nothing is checked out, fetched or written. PATH
is relative to the root of the repository, as in git's own `REV:PATH`. `./PATH` and `../PATH` are
relative to the working directory. Findings name a file `git:REV:path/from/the/root`.
"""

import os
import posixpath
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.yaml import (
    codes_git,
    codes_links,
)
from policyc.compiler.frontend.yaml.sources import (
    GIT_SCHEME,
    GitSource,
)
from policyc.ir.diagnostics import Diagnostic, Report, Severity
from policyc.ir.errors import HostError, InputError
from policyc.ir.spans import Span

SCHEME = GIT_SCHEME
_LFS = b"version https://git-lfs.github.com/spec/"
_LINK, _SUBMODULE, _TREE = b"120000", b"160000", b"040000"
_MOST_LINKS = 40  # the limit of Linux
_FETCH = "fetch it first; a remote branch is git:origin/{revision}, as in `git log`"
_NOT_THERE = "PATH counts from the root of the repository, ./PATH from the working directory"


def git_source(text: str, other: str | None = None) -> GitSource:
    """The source that `git:REV[:PATH]` names. Raises InputError if it names none.

    Without PATH it is the path of `other`, in the repository that contains `other`: a path, or None for
    the working directory.
    """
    revision, has_path, path = text.removeprefix(SCHEME).partition(":")
    if not revision or revision.startswith("-"):
        finding = codes_git.BAD_GIT_SOURCE.at(Span(text, 0, 0), text=text)
        raise InputError([finding.help("git:main, or git:main:policies")])
    if has_path and not path.startswith(("./", "../")) and path not in (".", ".."):
        return GitSource(".", revision, _inside(text, revision, path))
    place = Path(path if has_path else other or ".")
    near = Path() if has_path else place
    folder = next(p for p in (near.absolute(), *near.absolute().parents) if p.is_dir())
    found = _git(str(folder), "rev-parse", "--show-toplevel")
    if found.returncode:
        where = Span(text, 0, 0)
        finding = codes_git.NO_REPOSITORY.at(where, folder=folder, reason=_reason(found))
        raise InputError([finding.help("run policyc inside it, and name the path: git:REV:PATH")])
    root = os.path.realpath(os.fsdecode(found.stdout.rstrip(b"\n")))
    return GitSource(root, revision, _inside(text, revision, _from_root(place, root)))


def _from_root(place: Path, root: str) -> str:
    """A path from the root of its repository. Links below the root are not followed: a change could
    make one, and so choose the files of the commit that it is compared with.
    """
    plain = Path(os.path.normpath(os.path.realpath(".") / place))
    for parent in reversed((plain, *plain.parents)):  # a link may lead back to the root
        if os.path.realpath(parent) == root:
            return os.path.relpath(plain, parent)
    return os.path.relpath(os.path.realpath(place), root)


def _inside(text: str, revision: str, path: str) -> str:
    """A path from the root in normal form; it may not lead out of the repository."""
    plain = posixpath.normpath(path or ".")
    if plain.startswith(("/", "../")) or plain == "..":
        finding = codes_git.NOT_IN_COMMIT.at(Span(text, 0, 0), revision=revision, name=path)
        raise InputError([finding.help(_NOT_THERE)])
    return "" if plain == "." else plain


@dataclass(frozen=True, slots=True)
class _Blob:
    """A file of a commit: its mode, object id and path from the root."""

    mode: bytes
    oid: bytes
    path: str


def git_files(
    source: GitSource, report: Report, suffixes: tuple[str, ...], max_bytes: int
) -> Iterator[tuple[str, bytes]]:
    """The files of a source with their names, sorted; unreadable ones go to `report`.

    `suffixes` are the endings of the files that count inside a directory.
    """
    commit = _commit(source, report)
    if commit is None:
        return
    listed = _listed(source, commit, report)
    if listed is None:
        return
    is_one = len(listed) == 1 and listed[0].path == source.path
    links = Links(source, listed, suffixes)
    wanted = [blob for blob in listed if _counts(blob, suffixes, is_one, source, links, report)]
    if links.n_passed_over:
        report.add(codes_links.passed_over(source.name, links.n_passed_over))
    if not wanted and not is_one:
        looked_for = ", ".join(f"*{suffix}" for suffix in suffixes)
        where = Span(source.name, 0, 0)
        report.add(codes.NOTHING_HERE.at(where, looked_for=looked_for, name=source.name))
    for blob, data in _blobs(source, wanted, report, max_bytes):
        if data.startswith(_LFS):
            where = Span(_name(source, blob), 0, 0)
            finding = codes_git.LFS_POINTER.at(where, name=_printable(blob.path))
            report.add(finding.help("compare with a checkout in which `git lfs pull` was run"))
        else:
            yield _name(source, blob), data


def whole_commit(
    source: GitSource, report: Report, max_bytes: int
) -> Iterator[tuple[str, bool, bytes]]:
    """Everything in the commit of a source: paths from the root, whether it is a link, and the bytes.

    The bytes of a link are its target. Submodules are not in it. A source that does not exist is an
    error.
    """
    commit = _commit(source, report)
    if commit is None or _listed(source, commit, report) is None:
        return
    entries = _entries(replace(source, path=""), report, commit, is_deep=True)
    files = [each for each in entries or () if each.mode != _SUBMODULE]
    for blob, data in _blobs(source, files, report, max_bytes):
        yield blob.path, blob.mode == _LINK, data


def work_tree_of(repository: str) -> str | None:
    """The root of the work tree that a directory is in; None if it is in none."""
    found = _git(repository, "rev-parse", "--show-toplevel")
    return None if found.returncode else os.path.realpath(os.fsdecode(found.stdout.rstrip(b"\n")))


def _commit(source: GitSource, report: Report) -> str | None:
    """The object id of the commit."""
    found = _git(source.repository, "rev-parse", "--verify", f"{source.revision}^{{commit}}")
    if found.returncode == 0:
        return found.stdout.decode("ascii").strip()
    where = Span(source.name, 0, 0)
    inside = _git(source.repository, "rev-parse", "--git-dir")
    if inside.returncode:
        folder = Path(source.repository).absolute()
        finding = codes_git.NO_REPOSITORY.at(where, folder=folder, reason=_reason(inside))
        report.add(finding.help("run policyc inside the repository"))
        return None
    repository = Path(source.repository).absolute()
    finding = codes_git.NO_COMMIT.at(where, revision=source.revision, repository=repository)
    report.add(finding.help(_FETCH.format(revision=source.revision)))
    return None


def _listed(source: GitSource, commit: str, report: Report) -> list[_Blob] | None:
    """The commit's entries at the path: the entry itself, or all that is below a directory."""
    if not source.path:
        return _entries(source, report, commit, is_deep=True)
    entries = _entries(source, report, commit, is_deep=False)
    if entries is None:
        return None
    if not entries:
        where = Span(source.name, 0, 0)
        finding = codes_git.NOT_IN_COMMIT.at(where, revision=source.revision, name=source.path)
        if source.may_be_missing:
            report.add(replace(finding, severity=Severity.WARNING).help("nothing is read there"))
        else:
            report.add(finding.help(f"{_NOT_THERE}; for no policies at all give /dev/null"))
        return None
    is_tree = entries[0].mode == _TREE
    return _entries(source, report, commit, is_deep=True) if is_tree else entries


def _entries(
    source: GitSource, report: Report, commit: str, *, is_deep: bool
) -> list[_Blob] | None:
    """The entry at the path, or (deep) all files and links below it."""
    deep = ["-r"] if is_deep else []
    path = [source.path] if source.path else []
    found = _git(source.repository, "ls-tree", "-z", "--full-tree", *deep, "--", commit, *path)
    if found.returncode:
        where = Span(source.name, 0, 0)
        report.add(codes_git.GIT_FAILED.at(where, name=source.name, reason=_reason(found)))
        return None
    blobs = []
    for record in found.stdout.split(b"\0")[:-1]:
        head, _, name = record.partition(b"\t")
        mode, _, oid = head.split(b" ")
        blobs.append(_Blob(mode, oid, name.decode("utf-8", "surrogateescape")))
    return sorted(blobs, key=lambda blob: blob.path)


def _counts(
    blob: _Blob,
    suffixes: tuple[str, ...],
    is_one: bool,
    source: GitSource,
    links: "Links",
    report: Report,
) -> bool:
    """Whether a file is read. A file that a checkout would expand is an error, never skipped."""
    span = Span(_name(source, blob), 0, 0)
    if blob.mode == _SUBMODULE:
        finding = codes_git.SUBMODULE.at(span, name=_printable(blob.path))
        report.add(finding.help("name a directory without it, as git:REV:PATH"))
        return False
    if blob.mode == _LINK:
        fault = links.fault(blob, is_one)
        if fault is not None:
            report.add(fault)
        return False
    return is_one or blob.path.endswith(suffixes)


class Links:
    """The symbolic links among the entries of a source, and their targets in the commit."""

    def __init__(self, source: GitSource, listed: list[_Blob], suffixes: tuple[str, ...]) -> None:
        self._source, self._suffixes = source, suffixes
        self._targets = {blob.path: _target(source, blob) for blob in listed if blob.mode == _LINK}
        self._files = {blob.path for blob in listed if blob.mode != _LINK}
        parts = [blob.path.split("/") for blob in listed] if self._targets else []
        self._folders = {"/".join(each[:n]) for each in parts for n in range(len(each))}
        self.n_passed_over = 0

    def fault(self, link: _Blob, is_named: bool) -> Diagnostic | None:
        """The fault of a link; None, and counted, if its target is read in its own place.

        A link that the source itself names is never followed.
        """
        name, target = _printable(link.path), _printable(self._targets[link.path])
        span = Span(_name(self._source, link), 0, 0)
        real = None if is_named else self._resolved(link.path)
        if not is_named and real is None:
            finding = codes_links.LINK_LEADS_OUT.at(span, name=name, folder=self._source.name)
            return finding.help(codes_links.LEADS_OUT_HINT)
        if real is not None and real not in self._files and real not in self._folders:
            finding = codes_links.BROKEN_LINK.at(span, name=name, target=target)
            return finding.help(codes_links.BROKEN_HINT)
        is_counted = link.path.endswith(self._suffixes)
        if real is None or (
            real in self._files and is_counted and not real.endswith(self._suffixes)
        ):
            finding = codes_links.UNREAD_LINK.at(span, name=name, target=target)
            return finding.help(codes_links.UNREAD_HINT)
        self.n_passed_over += 1
        return None

    def _resolved(self, path: str) -> str | None:
        """The target of a path, links in the middle followed; None if it leaves the source."""
        top = self._source.path.split("/") if self._source.path else []
        left, done = path.split("/"), list[str]()
        n_followed = 0
        while left:
            part = left.pop(0)
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    return None
                done.pop()
                continue
            done.append(part)
            common = min(len(done), len(top))
            if done[:common] != top[:common]:
                return None
            target = self._targets.get("/".join(done))
            if target is None:
                continue
            n_followed += 1
            if target.startswith("/"):
                return None
            if n_followed > _MOST_LINKS:
                return path  # a loop: the path of a link, which is neither a file nor a directory
            done.pop()
            left = [*target.split("/"), *left]
        return "/".join(done) if len(done) >= len(top) else None


def _target(source: GitSource, link: _Blob) -> str:
    found = _git(source.repository, "cat-file", "blob", link.oid.decode("ascii"))
    return found.stdout.decode("utf-8", "surrogateescape")


def _blobs(
    source: GitSource, blobs: list[_Blob], report: Report, max_bytes: int
) -> Iterator[tuple[_Blob, bytes]]:
    """The bytes of the files, from one process."""
    if not blobs:
        return
    command = [*_command(source.repository), "cat-file", "--batch"]
    with subprocess.Popen(
        command,
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as batch:
        assert batch.stdin is not None
        assert batch.stdout is not None
        for blob in blobs:
            batch.stdin.write(blob.oid + b"\n")
            batch.stdin.flush()
            name = _name(source, blob)
            data = _one_blob(batch.stdout, name, report, max_bytes)
            if data is not None:
                yield blob, data
        batch.stdin.close()


def _one_blob(stream: IO[bytes], name: str, report: Report, max_bytes: int) -> bytes | None:
    """The answer of `cat-file --batch`: a line with the size, the bytes, a line end."""
    head = stream.readline().split()
    span = Span(name, 0, 0)
    if len(head) != 3 or head[1] != b"blob":
        reason = "the object is missing" if head else "it ended early"
        finding = codes_git.GIT_FAILED.at(span, name=name, reason=reason)
        report.add(finding.help("in a partial clone, fetch the file first: git cat-file -p"))
        return None
    size = int(head[2])
    if size > max_bytes:
        report.add(codes.TOO_LARGE.at(span, name=name, limit=max_bytes >> 20))
        while size > 0:
            size -= len(stream.read(min(size, 1 << 20))) or size
        stream.read(1)
        return None
    data = stream.read(size)
    stream.read(1)
    return data


def _git(folder: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run git for its output. Raises HostError if git is not installed."""
    try:
        command = [*_command(folder), *arguments]
        return subprocess.run(command, env=_environment(), capture_output=True, check=False)
    except FileNotFoundError as missing:
        raise HostError("git is not installed", "git:REV needs it; install git") from missing


def _command(folder: str) -> list[str]:
    return ["git", "--no-optional-locks", "--literal-pathspecs", "-C", folder]


def _environment() -> dict[str, str]:
    """Messages in English, and no implicit fetch of a partial clone's blobs."""
    return {**os.environ, "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"}


def _reason(found: subprocess.CompletedProcess[bytes]) -> str:
    """The first line of git's own error."""
    lines = found.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
    return lines[0].removeprefix("fatal: ") if lines else f"git ended with {found.returncode}"


def _name(source: GitSource, blob: _Blob) -> str:
    return f"{SCHEME}{source.revision}:{_printable(blob.path)}"


def _printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
