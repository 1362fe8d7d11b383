# SPDX-License-Identifier: Apache-2.0
"""Earlier findings about a text, as far as an edit leaves their lines: shown until a check ends."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from policyc.compiler.editor.positions import yaml_lines
from policyc.ir.diagnostics import Diagnostic, Note
from policyc.ir.spans import Span


@dataclass(frozen=True, slots=True)
class _Moved:
    """Lines 1 to `head` stay, lines after `tail` move by `by`, those between were edited."""

    file: str
    head: int
    tail: int
    by: int

    def span(self, span: Span) -> Span | None:
        """The new place; None for one in edited lines. Another file's place stays."""
        if span.file != self.file or span.line <= self.head:
            return span
        return replace(span, line=span.line + self.by) if span.line > self.tail else None


def carried(
    file: str, before: str, after: str, found: Iterable[Diagnostic]
) -> tuple[Diagnostic, ...]:
    """The findings about `before` whose lines are in `after`, at their lines there."""
    moved = _moved(file, yaml_lines(before), yaml_lines(after))
    kept = []
    for each in found:
        span = moved.span(each.span)
        if span is not None:
            kept.append(replace(each, span=span, notes=tuple(_notes(each.notes, moved))))
    return tuple(kept)


def _notes(notes: Iterable[Note], moved: _Moved) -> Iterable[Note]:
    for note in notes:
        span = moved.span(note.span)
        if span is not None:
            yield replace(note, span=span)


def _moved(file: str, before: list[str], after: list[str]) -> _Moved:
    head = _n_equal(before, after, min(len(before), len(after)))
    end = _n_equal(before[::-1], after[::-1], min(len(before), len(after)) - head)
    return _Moved(file, head, len(before) - end, len(after) - len(before))


def _n_equal(one: list[str], other: list[str], most: int) -> int:
    """How many items at the beginning are equal, at most so many."""
    return next((at for at in range(most) if one[at] != other[at]), most)
