# SPDX-License-Identifier: Apache-2.0
"""Findings as text for people, on standard error, with the source line and a caret."""

import linecache
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from policyc.ir.diagnostics import Diagnostic, Severity, render
from policyc.ir.spans import Span

_MAX_CARETS = 120
_COLOURS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.NOTE: "36"}


def print_findings(findings: Iterable[Diagnostic], stream: TextIO | None = None) -> None:
    """Print findings, then how many there were; coloured on a terminal, unless NO_COLOR is set."""
    out = stream or sys.stderr
    colour = out.isatty() and not os.environ.get("NO_COLOR")
    shown = list(findings)
    for finding in shown:
        text = render(_narrowed(finding), source_line)
        print(_coloured(finding, text) if colour else text, file=out)
    errors = sum(finding.is_error for finding in shown)
    if errors:
        print(f"policyc: {errors} error{'s' if errors > 1 else ''}", file=out)


def source_line(span: Span) -> str | None:
    """The line of a span's file, None where it cannot be read again (standard input, a FIFO)."""
    if not Path(span.file).is_file():
        return None
    return linecache.getline(span.file, span.line) or None


def _narrowed(finding: Diagnostic) -> Diagnostic:
    """The finding with no more carets than show where a long value begins."""
    span = finding.span
    return replace(
        finding, span=replace(span, end_column=min(span.end_column, span.column + _MAX_CARETS))
    )


def _coloured(finding: Diagnostic, text: str) -> str:
    label = f"{finding.severity.value}[{finding.code}]"
    return text.replace(label, f"\x1b[1;{_COLOURS[finding.severity]}m{label}\x1b[0m", 1)
