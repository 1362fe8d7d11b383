# SPDX-License-Identifier: Apache-2.0
"""Excerpts of the source: the lines of a rule or policy, by their indentation, and a few before."""

from collections.abc import Iterable

from policyc.compiler.driver.report.texts import Lines, Texts
from policyc.ir.results.common import Place
from policyc.ir.results.report import Excerpt
from policyc.ir.spans import Span

BEFORE, MOST = 2, 16
"""The number of lines before a rule, and the most lines of it that are shown."""
MOST_OF_POLICY = 40
"""The most lines that are shown of a whole policy."""


def excerpts_of(places: Iterable[Place], texts: Texts) -> dict[Span, Excerpt]:
    """An excerpt for each place whose file can be read again."""
    found = {}
    for place in dict.fromkeys(places):
        excerpt = excerpt_of(place, texts.lines(place.span.file))
        if excerpt is not None:
            found[place.span] = excerpt
    return found


def excerpt_of(place: Place, lines: Lines) -> Excerpt | None:
    """The lines of a rule, or the document of a whole policy; None if the file has no such line."""
    at = place.span.line - 1
    if not 0 <= at < len(lines):
        return None
    if not place.path or place.path.startswith("metadata"):
        first, end = _document(lines, at)
        last = min(end, first + MOST_OF_POLICY)
        return Excerpt(first + 1, lines[first:last], (first + 1, last), end - last)
    end = _end(lines, at)
    first, last = max(0, at - BEFORE), min(end, at + MOST)
    return Excerpt(first + 1, lines[first:last], (at + 1, last), end - last)


def _document(lines: Lines, at: int) -> tuple[int, int]:
    """The index of the first line of the YAML document around line `at`, and that after its last one."""
    first, end = at, at + 1
    while first > 0 and not lines[first - 1].startswith("---"):
        first -= 1
    while end < len(lines) and not lines[end].startswith("---"):
        end += 1
    while end > at + 1 and not lines[end - 1].strip():
        end -= 1
    return first, end


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
