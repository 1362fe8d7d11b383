# SPDX-License-Identifier: Apache-2.0
"""How a result is to be shown: everything that a renderer may know about its environment."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from policyc.backends.report.text import source_line
from policyc.ir.spans import Span

TERMINAL_COLUMNS = 80


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """`width` None: lines are not folded, as for a pipe. `line_of` gives a span's source line.

    `root` is the directory that URIs are relative to, None the current one. `is_full`: also show what is
    usually only counted.
    """

    colour: bool = False
    width: int | None = None
    line_of: Callable[[Span], str | None] = source_line
    root: Path | None = None
    is_full: bool = False


PLAIN = ReportOptions()
"""The options for files and pipes."""


def options_for(stream: TextIO) -> ReportOptions:
    """Folded to 80 columns on a terminal, and coloured there unless NO_COLOR is set."""
    if not stream.isatty():
        return PLAIN
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return ReportOptions(colour=colour, width=TERMINAL_COLUMNS)
