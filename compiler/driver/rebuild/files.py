# SPDX-License-Identifier: Apache-2.0
"""The files of a run that can be read again with the same content."""

import stat
from collections.abc import Sequence
from pathlib import Path

from policyc.compiler.frontend.yaml.sources import (
    Content,
    PathSource,
    Source,
    contents,
    files_of,
)
from policyc.ir.diagnostics import Report


def contents_again(sources: Sequence[Source]) -> list[Content] | None:
    """The files that sources name; None if one is not a regular file, or cannot be read.

    A stream is never read, because it cannot be read again: a FIFO, or standard input by its path. No
    two files have one name, as it is shown and stored.
    """
    report = Report()
    paths = [source for source in sources if isinstance(source, PathSource)]
    if len(paths) < len(sources):
        return None
    for source in paths:
        for file in files_of(source.path, report):
            if not _is_regular(file):
                return None
    found = list(contents(paths, report))
    if report.findings or len({content.name for content in found}) < len(found):
        return None
    return found


def _is_regular(path: str) -> bool:
    """Whether a path is that of a file, and not of a process's open descriptor."""
    try:
        is_file = stat.S_ISREG(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False
    return is_file and not str(Path(path).absolute()).startswith(("/dev/", "/proc/"))
