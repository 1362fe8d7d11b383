# SPDX-License-Identifier: Apache-2.0
"""Findings about the input, as values: a stable code, a place, notes and a remedy.

Reporting continues after an error, so one run shows all findings.
"""

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from enum import Enum

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.printable import printable, printable_line
from policyc.ir.spans import Span


class Severity(Enum):
    """The severity of a finding. Only an ERROR stops the pipeline."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that explains a finding."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is stable (`PC0218`) and documented in docs/diagnostics.md."""

    code: str
    severity: Severity
    message: str
    span: Span
    path: str = ""
    notes: tuple[Note, ...] = ()
    hint: str = ""

    def note(self, span: Span, text: str) -> "Diagnostic":
        """The same finding with one more place that explains it."""
        return replace(self, notes=(*self.notes, Note(span, text)))

    def help(self, text: str) -> "Diagnostic":
        """The same finding with a remedy."""
        return replace(self, hint=text)

    @property
    def is_error(self) -> bool:
        """Whether this finding stops the pipeline."""
        return self.severity is Severity.ERROR

    def to_json(self) -> dict[str, object]:
        """The finding as JSON values, as every `--format json` shows it."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "file": self.span.file,
            "line": self.span.line,
            "column": self.span.column,
            "path": self.path,
            "notes": [
                {
                    "file": note.span.file,
                    "line": note.span.line,
                    "column": note.span.column,
                    "message": note.text,
                }
                for note in self.notes
            ],
            "help": self.hint,
        }


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of finding: its stable name, severity and message template (`str.format`)."""

    name: str
    severity: Severity
    template: str

    def at(self, span: Span, path: str = "", **values: object) -> Diagnostic:
        """A finding of this kind at `span`; `path` is the field's path in the API's notation."""
        return Diagnostic(self.name, self.severity, self.template.format(**values), span, path)


@dataclass
class Report:
    """The findings of one run, in the order they were made."""

    findings: list[Diagnostic] = field(default_factory=list)

    def add(self, finding: Diagnostic) -> None:
        """Keep one more finding."""
        self.findings.append(finding)

    @property
    def errors(self) -> list[Diagnostic]:
        """Only the findings that stop the pipeline."""
        return [finding for finding in self.findings if finding.is_error]

    def sorted(self) -> list[Diagnostic]:
        """The findings by place, then in the order they were made."""
        return sorted(self.findings, key=lambda finding: finding.span)


def render(finding: Diagnostic, line_of: Callable[[Span], str | None]) -> str:
    """The finding as text with its source line and a caret; `line_of` gives the line, or None.

    Each of its lines is printable, because names and values come from the input.
    """
    head = f"{finding.severity.value}[{finding.code}]: {finding.message}"
    if finding.span.line == 0:
        out = [printable_line(f"{finding.span.file}: {head}")]
    else:
        out = [printable_line(f"{finding.span}: {head}")]
        out += _excerpt(finding.span, line_of(finding.span))
    for note in finding.notes:
        out.append(printable_line(f"{note.span}: note: {note.text}"))
    if finding.hint:
        out.append(printable(f"help: {finding.hint}"))
    return "\n".join(out)


def _excerpt(span: Span, line: str | None) -> Iterable[str]:
    if line is None:
        return
    number = f"{span.line:>5}"
    shown = line.rstrip("\n").replace("\t", " ")[:160]
    start = span.column - 1
    if start > len(shown):
        return
    end = start + max(1, span.end_column - span.column)
    before, marked = printable(shown[:start]), printable(shown[start:end])
    yield f"{number} | {before}{marked}{printable(shown[end:])}"
    yield f"{' ' * len(number)} | {' ' * len(before)}{'^' * max(1, len(marked))}"
