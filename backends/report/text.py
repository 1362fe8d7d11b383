# SPDX-License-Identifier: Apache-2.0
"""Findings as text for people, on standard error, with the source line and a caret."""

import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TextIO, TypeVar

from policyc.ir.diagnostics import Diagnostic, Severity, render
from policyc.ir.spans import Span

MOST_OF_CODE = 20
MOST = 100
"""The number of findings that are printed, of one code and in all."""
ALL_FINDINGS = "POLICYC_ALL_FINDINGS"
"""The environment variable that lifts both limits."""
_MAX_CARETS = 120
_NO_PATHS = ("<", "git:", "bundle:")
"""Prefixes of names that are not files; a link of that name could lead to any file."""
_LINE_END = re.compile(r"\r\n|\n|\r")
_COLOURS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.NOTE: "36"}


def print_findings(findings: Iterable[Diagnostic], stream: TextIO | None = None) -> None:
    """Print findings, then their number; coloured on a terminal, unless NO_COLOR is set.

    Of many findings the first of each code are printed, errors before others, and the rest is counted.
    With POLICYC_ALL_FINDINGS set, all are printed.
    """
    out = stream or sys.stderr
    colour = out.isatty() and not os.environ.get("NO_COLOR")
    given = list(findings)
    shown = given if os.environ.get(ALL_FINDINGS, "0") not in ("", "0") else first_of(given)
    for finding in shown:
        text = render(_narrowed(finding), source_line)
        print(_coloured(finding, text) if colour else text, file=out)
    if len(shown) < len(given):
        print(f"policyc: not shown: {counts_left(given, shown)}", file=out)
        print(f"help: {ALL_FINDINGS}=1 shows all", file=out)
    errors = sum(finding.is_error for finding in given)
    if errors:
        print(f"policyc: {errors} error{'s' if errors > 1 else ''}", file=out)


class Found(Protocol):
    """A finding of whichever kind."""

    @property
    def code(self) -> str:
        """Its code, as PC2003."""

    @property
    def severity(self) -> Severity:
        """How severe it is."""


Each = TypeVar("Each", bound=Found)
_ORDER = tuple(Severity)


def first_of(findings: Sequence[Each]) -> list[Each]:
    """At most MOST_OF_CODE findings of a code and MOST in all, in their order; severe ones stay."""
    n_of_code: Counter[str] = Counter()
    kept: list[int] = []
    for at in sorted(range(len(findings)), key=lambda at: _ORDER.index(findings[at].severity)):
        code = findings[at].code
        if n_of_code[code] < MOST_OF_CODE and len(kept) < MOST:
            n_of_code[code] += 1
            kept.append(at)
    return [findings[at] for at in sorted(kept)]


def counts_left(given: Sequence[Found], shown: Sequence[Found]) -> str:
    """The findings that are not shown, by code: `3 PC2003, 1 PC2011`."""
    left = Counter(each.code for each in given) - Counter(each.code for each in shown)
    return ", ".join(f"{n} {code}" for code, n in sorted(left.items()))


def source_line(span: Span) -> str | None:
    """The line of a span's file; None if it has none, or cannot be read again (`source_lines`)."""
    lines = source_lines(span.file)
    return lines[span.line - 1] if 1 <= span.line <= len(lines) else None


def source_lines(file: str) -> list[str]:
    """The lines of a file; none if it cannot be read again (standard input, a FIFO).

    None also if the name is not the file's path: a name with a backslash may stand for bytes that are
    not UTF-8, and another file may have that name.
    """
    if file.startswith(_NO_PATHS) or "\\" in file:
        return []
    try:
        about = Path(file).stat()
        if not stat.S_ISREG(about.st_mode):
            return []
        return _lines(file, about.st_mtime_ns, about.st_size)
    except (OSError, ValueError):
        return []


@lru_cache(maxsize=8)
def _lines(file: str, _mtime_ns: int, _size: int) -> list[str]:
    """The lines of a file as YAML readers count them; cached as long as the file is the same."""
    text = Path(file).read_bytes().decode("utf-8-sig", "replace")
    return _LINE_END.split(text)


def _narrowed(finding: Diagnostic) -> Diagnostic:
    """The finding with no more carets than needed to show where a long value begins."""
    span = finding.span
    return replace(
        finding, span=replace(span, end_column=min(span.end_column, span.column + _MAX_CARETS))
    )


def _coloured(finding: Diagnostic, text: str) -> str:
    label = f"{finding.severity.value}[{finding.code}]"
    return text.replace(label, f"\x1b[1;{_COLOURS[finding.severity]}m{label}\x1b[0m", 1)
