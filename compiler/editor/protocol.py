# SPDX-License-Identifier: Apache-2.0
"""Findings, fixes and places as the values of the Language Server Protocol."""

import os
from collections.abc import Callable
from pathlib import Path

from lsprotocol import types

from policyc.compiler.editor.positions import Position, Text
from policyc.compiler.editor.quick_fixes import QuickFix
from policyc.ir.diagnostics import Diagnostic, Note, Severity
from policyc.ir.printable import printable
from policyc.ir.spans import Span

SOURCE = "policyc"
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}
TextOf = Callable[[str], Text]
"""The text of a file by its name in findings; empty if it cannot be read."""


def uri_of(name: str) -> str:
    """The URI of a file by its name in findings."""
    return Path(os.path.realpath(name)).as_uri()


def range_of(text: Text, span: Span) -> types.Range:
    """The range of a place."""
    return _range(*text.range_of(span))


def _range(start: Position, end: Position) -> types.Range:
    return types.Range(types.Position(*start), types.Position(*end))


def diagnostic(finding: Diagnostic, text_of: TextOf) -> types.Diagnostic:
    """A finding; the message has the remedy."""
    message = finding.message if not finding.hint else f"{finding.message}\nhelp: {finding.hint}"
    return types.Diagnostic(
        range_of(text_of(finding.span.file), finding.span),
        "\n".join(map(printable, message.split("\n"))),
        _SEVERITIES[finding.severity],
        finding.code or None,
        source=SOURCE,
        related_information=[_related(n, text_of) for n in finding.notes if n.span.line] or None,
    )


def _related(note: Note, text_of: TextOf) -> types.DiagnosticRelatedInformation:
    return types.DiagnosticRelatedInformation(location(note.span, text_of), printable(note.text))


def location(span: Span, text_of: TextOf) -> types.Location:
    """A place in a file."""
    return types.Location(uri_of(span.file), range_of(text_of(span.file), span))


def code_action(
    fix: QuickFix, uri: str, version: int | None, text: Text, shown: types.Diagnostic
) -> types.CodeAction:
    """A fix as an edit of this version of the document."""
    where = f"no verdict changes for {fix.universe}"
    changes: list[types.TextDocumentEdit | types.DeleteFile]
    if fix.edits is None:
        title = f"Delete the file, which holds nothing else ({where})"
        changes = [types.DeleteFile(uri)]
    else:
        title = f"{fix.finding.hint.partition(';')[0].capitalize()} ({where})"
        edits = [
            types.TextEdit(_range(text.position(each.start), text.position(each.end)), each.new)
            for each in fix.edits
        ]
        document = types.OptionalVersionedTextDocumentIdentifier(uri, version)
        changes = [types.TextDocumentEdit(document, edits)]
    return types.CodeAction(
        title,
        types.CodeActionKind.QuickFix,
        [shown],
        is_preferred=True,
        edit=types.WorkspaceEdit(document_changes=changes),
    )
