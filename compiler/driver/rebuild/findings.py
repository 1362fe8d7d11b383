# SPDX-License-Identifier: Apache-2.0
"""The findings about the policies of a run, stored with the policy whose document they are about.

Only findings that depend on one document alone are stored: the same text gives them again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from policyc.compiler.driver.rebuild.changes import Input, read_again
from policyc.compiler.frontend.read_options import ReadOptions
from policyc.ir.diagnostics import Diagnostic, Note, Severity
from policyc.ir.spans import Span

Said = Mapping[int, Sequence[Diagnostic]]
"""The findings of a policy's document, by the policy's place in the record, in the order made."""


def said_of_documents(
    given: Input, findings: Sequence[Diagnostic], options: ReadOptions
) -> Said | None:
    """The findings of a run by policy; None if one depends on more than its document."""
    if not findings:
        return {}
    names = [file.name for file in given.files]
    wanted = set()
    for finding in findings:
        if finding.span.file not in names:
            return None
        owner = given.owner_at(names.index(finding.span.file), finding.span.line)
        if owner is None:
            return None
        wanted.add(owner)
    again = read_again(given, wanted, options)
    if again is None or in_order(again.said) != list(findings):
        return None
    return again.said


def in_order(said: Said) -> list[Diagnostic]:
    """All findings in display order: by place, then in the order in which they were made."""
    found = [finding for owner in sorted(said) for finding in said[owner]]
    return sorted(found, key=lambda finding: finding.span)


def said_json(said: Said) -> dict[str, Any]:
    """The findings as JSON values. Their places are all in the file of the document."""
    return {str(owner): [_json(each) for each in findings] for owner, findings in said.items()}


def said_from(value: Mapping[str, Any], files: Mapping[int, str], moved: Mapping[int, int]) -> Said:
    """The findings that `said_json` wrote, for documents in these files that moved by so many lines."""
    return {
        owner: [_from(each, files[owner], moved.get(owner, 0)) for each in findings]
        for owner, findings in ((int(owner), findings) for owner, findings in value.items())
    }


def _json(finding: Diagnostic) -> list[Any]:
    notes = [[_place(note.span), note.text] for note in finding.notes]
    place, severity = _place(finding.span), finding.severity.value
    return [finding.code, severity, finding.message, place, finding.path, notes, finding.hint]


def _place(span: Span) -> list[int]:
    return [span.line, span.column, span.end_column]


def _from(value: Sequence[Any], file: str, moved: int) -> Diagnostic:
    code, severity, message, place, path, notes, hint = value

    def span(place: Iterable[int]) -> Span:
        line, column, end = place
        return Span(file, line + moved, column, end)

    return Diagnostic(
        code,
        Severity(severity),
        message,
        span(place),
        path,
        tuple(Note(span(at), text) for at, text in notes),
        hint,
    )
