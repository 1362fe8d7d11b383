# SPDX-License-Identifier: Apache-2.0
"""The files of a directory whose author may be untrusted, such as the author of a pull request.

Only regular files are read, and no symbolic link is followed: a link could lead to any file that the
user may read, and an error would show a line of it. A link that leads out of the directory is an error,
because its target is not part of the input. A link to a place inside the directory is skipped and
counted. A link to a file whose name would not be read is skipped and counted too.
"""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from policyc.compiler.frontend.yaml import codes_links
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.spans import Span

Named = Callable[[str], str]
"""From a path to its name in findings."""


def regular_files(
    folder: str,
    report: Report,
    suffixes: tuple[str, ...],
    named: Named,
    unreadable: Callable[[OSError], None],
) -> list[str]:
    """The regular files below a directory whose names end in `suffixes`, in no order.

    Every entry that is neither a regular file nor a directory goes to `report`.
    """
    root = os.path.realpath(folder)
    found: list[str] = []
    n_links = 0
    for path, mode in _entries(folder, unreadable):
        if stat.S_ISREG(mode):
            if path.endswith(suffixes):
                found.append(path)
        elif stat.S_ISLNK(mode):
            fault = _link_fault(path, root, suffixes, named, folder)
            if fault is None:
                n_links += 1
            else:
                report.add(fault)
        else:
            report.add(not_regular(named(path), mode))
    if n_links:
        report.add(codes_links.passed_over(named(folder), n_links))
    return found


def _entries(folder: str, unreadable: Callable[[OSError], None]) -> Iterator[tuple[str, int]]:
    """The path and mode of every entry below a directory, except directories."""
    for place, folders, names in os.walk(folder, onerror=unreadable):
        for name in sorted((*folders, *names)):
            path = os.path.join(place, name)  # noqa: PTH118 - keeps the user's spelling of the path
            try:
                mode = os.lstat(path).st_mode
            except OSError as failure:
                unreadable(failure)
                continue
            if not stat.S_ISDIR(mode):
                yield path, mode


def _link_fault(
    path: str, root: str, suffixes: tuple[str, ...], named: Named, folder: str
) -> Diagnostic | None:
    """The fault of a link; None if its target is inside and is read there if it counts.

    The finding does not say whether a target outside exists: the link's author must not learn it. A link
    to a file under a name that is not read, such as in a virtual environment, is harmless.
    """
    name = named(path)
    span = Span(name, 0, 0)
    real = os.path.realpath(path)
    if not path.endswith(suffixes) and Path(real).is_file():
        return None
    if not Path(real).is_relative_to(root):
        finding = codes_links.LINK_LEADS_OUT.at(span, name=name, folder=named(folder))
        return finding.help(codes_links.LEADS_OUT_HINT)
    target = named(str(Path(path).readlink()))
    try:
        os.path.realpath(path, strict=True)
    except OSError:  # a dangling link, or a loop of links
        finding = codes_links.BROKEN_LINK.at(span, name=name, target=target)
        return finding.help(codes_links.BROKEN_HINT)
    if path.endswith(suffixes) and not real.endswith(suffixes) and not Path(real).is_dir():
        finding = codes_links.UNREAD_LINK.at(span, name=name, target=target)
        return finding.help(codes_links.UNREAD_HINT)
    return None


def not_regular(name: str, mode: int) -> Diagnostic:
    """The finding about a FIFO, a socket or a device."""
    kinds = ((stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"), (stat.S_ISLNK, "a link"))
    what = next((words for is_kind, words in kinds if is_kind(mode)), "a device")
    finding = codes_links.NOT_REGULAR.at(Span(name, 0, 0), name=name, what=what)
    return finding.help(codes_links.NOT_REGULAR_HINT)


def open_regular(path: str) -> tuple[BinaryIO, int]:
    """A file that was found to be regular, and its mode now.

    It may have changed since: a link fails to open, and a FIFO without a writer does not block the
    reader.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    stream = os.fdopen(os.open(path, flags), "rb")
    return stream, os.fstat(stream.fileno()).st_mode
