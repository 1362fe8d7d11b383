# SPDX-License-Identifier: Apache-2.0
"""The build cache of `compile --cache DIR`: bytes under the digest of all their inputs.

An entry is the SHA-256 of its content, then the content. It is written beside its place and renamed, so
runs may share a directory. A damaged entry counts as missing, and is written again. If the cache exceeds
its limit, the least recently used entries are removed. Why reuse is safe:
docs/decisions/0015-build-cache.md.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterable
from dataclasses import field
from functools import cache
from pathlib import Path

from policyc.compiler.driver.codes import CACHE_NOT_WRITTEN, CACHE_UNUSABLE
from policyc.compiler.driver.installed import folder_of, release_of
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.spans import Span

FORMAT = "v1"
DEFAULT_LIMIT = 512 << 20
_DIGEST_BYTES = 32
_CHUNK = 1 << 16
_TAG = "CACHEDIR.TAG"  # backups skip directories that have it
_TAG_TEXT = "Signature: 8a477f597d28d172789f06886806bc55\n# policyc compile --cache\n"


@dataclass
class BuildCache:
    """An open cache directory; `limit` is its size in bytes after `trim`."""

    folder: Path
    limit: int = DEFAULT_LIMIT
    findings: list[Diagnostic] = field(default_factory=list)
    """The reason why the cache was not written, once."""
    _has_grown: bool = False

    def get(self, key: str) -> bytes | None:
        """The content under a key; None if there is none, or it is damaged."""
        path = self._path(key)
        try:
            with path.open("rb", buffering=0) as entry:  # a buffer would hold it once more
                digest, content = entry.read(_DIGEST_BYTES), entry.readall()
        except OSError:
            return None
        if hashlib.sha256(content).digest() != digest:
            return None
        with contextlib.suppress(OSError):  # read-only, or gone: it only looks older
            os.utime(path)
        return content

    def has(self, key: str) -> bool:
        """Whether there is an entry under a key, damaged or not."""
        return self._path(key).exists()

    def put(self, key: str, content: bytes) -> None:
        """Store content under a key. If that fails, the run continues, and `findings` report it."""
        path = self._path(key)
        try:
            path.parent.mkdir(exist_ok=True)
            handle, new = _new_file(path.parent)
            try:
                with os.fdopen(handle, "wb") as out:
                    out.write(hashlib.sha256(content).digest())
                    out.write(content)
                new.replace(path)
            except BaseException:
                new.unlink(missing_ok=True)
                raise
        except OSError as failure:
            self._complain(failure)
            return
        self._has_grown = True

    def trim(self) -> None:
        """Remove the least recently used entries, if the cache exceeds its limit."""
        if not self._has_grown:
            return
        entries = sorted(self._entries())
        size = sum(entry[1] for entry in entries)
        for _, its_size, path in entries:
            if size <= self.limit:
                return
            with contextlib.suppress(OSError):  # another run removed it first
                path.unlink()
            size -= its_size

    def _entries(self) -> Iterable[tuple[int, int, Path]]:
        """(time of last use, bytes, path) of every entry, leftovers of killed runs included."""
        for path in (self.folder / FORMAT).glob("*/*"):
            with contextlib.suppress(OSError):
                about = path.stat()
                yield about.st_mtime_ns, about.st_size, path

    def _path(self, key: str) -> Path:
        return self.folder / FORMAT / key[:2] / key

    def _complain(self, failure: OSError) -> None:
        if not self.findings:
            reason = failure.strerror or str(failure)
            found = CACHE_NOT_WRITTEN.at(_span(self.folder), folder=self.folder, reason=reason)
            self.findings.append(found)


def open_cache(folder: Path, limit: int = DEFAULT_LIMIT) -> BuildCache:
    """The cache in a directory, which is created. InputError if it cannot be written to."""
    try:
        (folder / FORMAT).mkdir(parents=True, exist_ok=True)
        handle, new = _new_file(folder / FORMAT)
        os.close(handle)
        new.unlink()
        if not (folder / _TAG).exists():
            (folder / _TAG).write_text(_TAG_TEXT, encoding="utf-8")
    except OSError as failure:
        reason = failure.strerror or str(failure)
        raise InputError(
            [CACHE_UNUSABLE.at(_span(folder), folder=folder, reason=reason)]
        ) from failure
    return BuildCache(folder, limit)


def key_of(*parts: str | bytes) -> str:
    """A key from everything that an entry depends on; different lists of parts have different keys."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.hexdigest()


@cache
def source_digest(*packages: str) -> str:
    """The digest of our code in packages and their subpackages: a changed compiler uses no old entry."""
    return key_of(release_of("policyc"), *(_folder_digest(str(folder_of(p))) for p in packages))


@cache
def _folder_digest(folder: str) -> str:
    parts: list[str | bytes] = []
    with os.scandir(folder) as items:
        entries = sorted((item.name, item.path, item.is_dir()) for item in items)
    for name, path, is_folder in entries:
        if name.endswith(".py"):
            parts += [name, _bytes_of(path)]
        elif is_folder and name != "__pycache__":
            parts += [name, _folder_digest(path)]
    return key_of(*parts)


def _bytes_of(path: str) -> bytes:
    """A file's bytes with fewer system calls than the standard library: there are hundreds of files."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = b""
        while chunk := os.read(handle, _CHUNK):
            found += chunk
        return found
    finally:
        os.close(handle)


def _new_file(folder: Path) -> tuple[int, Path]:
    """A new file, open for writing; by hand, because `tempfile` takes long to load."""
    path = folder / f".new-{os.getpid()}-{os.urandom(8).hex()}"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), path


def _span(folder: Path) -> Span:
    return Span(str(folder), 0, 0)
