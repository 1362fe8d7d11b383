# SPDX-License-Identifier: Apache-2.0
"""Excerpts of the source: the lines of a rule or policy, by their indentation, and a few before."""

from collections.abc import Iterable

from policyc.compiler.driver.report.texts import Lines, Texts
from policyc.ir.results.report import Excerpt
from policyc.ir.spans import Span

BEFORE, MOST = 2, 16
"""The number of lines before a rule or policy, and the most lines of it that are shown."""


def excerpts_of(spans: Iterable[Span], texts: Texts) -> dict[Span, Excerpt]:
    """An excerpt for each place whose file can be read again."""
    found = {}
    for span in dict.fromkeys(spans):
        excerpt = excerpt_of(span, texts.lines(span.file)) if span.line else None
        if excerpt is not None:
            found[span] = excerpt
    return found


def excerpt_of(span: Span, lines: Lines) -> Excerpt | None:
    """The lines of what begins at a span; None if the file has no such line."""
    at = span.line - 1
    if not 0 <= at < len(lines):
        return None
    end = _end(lines, at)
    first, last = max(0, at - BEFORE), min(end, at + MOST)
    return Excerpt(first + 1, lines[first:last], (span.line, last), end - last)


def _end(lines: Lines, at: int) -> int:
    """The index after the last line that is indented deeper than line `at`."""
    depth, end = _indent(lines[at]), at + 1
    for index in range(at + 1, len(lines)):
        line = lines[index]
        if line.startswith("---"):
            break
        if line.strip():
            if _indent(line) <= depth:
                break
            end = index + 1
    return end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
