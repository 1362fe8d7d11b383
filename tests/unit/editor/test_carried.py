# SPDX-License-Identifier: Apache-2.0
"""Earlier findings at their lines in an edited text."""

import pytest

from policyc.compiler.editor.carried import carried
from policyc.ir.diagnostics import Diagnostic, Note, Severity
from policyc.ir.spans import Span

BEFORE = "a\nb\nc\nd\n"


def lines_after(text: str) -> list[int]:
    """The lines of one finding for each line of BEFORE, in the edited text."""
    found = [Diagnostic("", Severity.NOTE, "m", Span("f", line, 1)) for line in range(1, 5)]
    return [each.span.line for each in carried("f", BEFORE, text, found)]


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        (BEFORE, [1, 2, 3, 4]),
        ("a\nB\nc\nd\n", [1, 3, 4]),
        ("new\na\nb\nc\nd\n", [2, 3, 4, 5]),
        ("a\nd\n", [1, 2]),
        ("a\nb\nb\nc\nd\n", [1, 2, 4, 5]),
        ("", []),
        ("a\r\nb\u2028c\nd", [1, 2, 3, 4]),
    ],
)
def test_findings_of_unchanged_lines_move_with_them(after: str, lines: list[int]) -> None:
    assert lines_after(after) == lines


def test_notes_move_too_and_other_places_stay() -> None:
    notes = tuple(Note(span, "n") for span in (Span("f", 2, 1), Span("f", 4, 1), Span("g", 2, 1)))
    of_file = Diagnostic("", Severity.NOTE, "m", Span("f", 0, 0), notes=notes)
    (found,) = carried("f", BEFORE, "a\nB\nB\nc\nd\n", [of_file])
    assert found.span == Span("f", 0, 0)
    assert [note.span for note in found.notes] == [Span("f", 5, 1), Span("g", 2, 1)]
