# SPDX-License-Identifier: Apache-2.0
"""Results as a list of entries, for formats that show one entry after the other.

A difference, a finding and an intent are an entry each, and so is a question that was not decided.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from policyc.backends.report.flows import flow_words
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.verdicts import verdict_words
from policyc.backends.report.words import DID, MAY_BE, left_out_words, region_words
from policyc.ir.diagnostics import Severity
from policyc.ir.printable import printable
from policyc.ir.results.check import CheckResult
from policyc.ir.results.common import Finding, Witness
from policyc.ir.results.diff import Difference, DifferenceKind, DiffOutcome, DiffResult
from policyc.ir.results.failure import Failure
from policyc.ir.results.verify import IntentAnswer, IntentStatus, VerifyResult
from policyc.ir.spans import Span


class Level(Enum):
    """The importance of an entry; HOLDS: nothing is wrong."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    HOLDS = "holds"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a result: its level, a title, and further lines; `span` None: of no file.

    `kind` is the code of a finding, or the kind of a difference or intent. `is_decided` False: the
    question is open.
    """

    level: Level
    kind: str
    title: str
    span: Span | None = None
    lines: tuple[str, ...] = ()
    is_decided: bool = True


_LEVELS = {
    Severity.ERROR: Level.ERROR,
    Severity.WARNING: Level.WARNING,
    Severity.NOTE: Level.NOTE,
}
DIFF_LEVELS = {
    DifferenceKind.WIDENED: Level.ERROR,
    DifferenceKind.NARROWED: Level.WARNING,
    DifferenceKind.CHANGED: Level.NOTE,
    DifferenceKind.LATENT: Level.NOTE,
}
_INTENT_LEVELS = {
    IntentStatus.HOLDS: Level.HOLDS,
    IntentStatus.BROKEN: Level.ERROR,
    IntentStatus.VACUOUS: Level.WARNING,
    IntentStatus.UNDECIDED: Level.ERROR,
}


def diff_entries(result: DiffResult) -> Iterator[Entry]:
    """An entry for each region that is shown, and for an undecided comparison."""
    for difference in result.differences:
        yield _difference(difference, DID[difference.kind])
    for difference in result.possible:
        yield _difference(difference, MAY_BE[difference.kind], is_decided=False)
    if result.outcome is DiffOutcome.UNDECIDED and result.undecided:
        yield _undecided(result.undecided)


def _difference(difference: Difference, did: str, is_decided: bool = True) -> Entry:
    places = (*difference.after, *difference.before)
    return Entry(
        DIFF_LEVELS[difference.kind],
        f"traffic-{DID[difference.kind]}",
        f"{did}: {region_words(difference)}",
        places[0].span if places else None,
        tuple(witness_lines(difference.witness)),
        is_decided,
    )


def check_entries(result: CheckResult) -> Iterator[Entry]:
    """An entry for each finding that is not suppressed, and for each undecided question."""
    yield from map(_finding, result.findings)
    yield from map(_undecided, result.undecided)


def _finding(finding: Finding) -> Entry:
    lines = [finding.explanation, finding.hint and f"fix: {finding.hint}"]
    lines += witness_lines(finding.witness) if finding.witness else []
    lines += [f"{note.span}: {note.text}" for note in finding.notes]
    kept = tuple(line for line in lines if line)
    title = finding.message
    return Entry(_LEVELS[finding.severity], finding.code, title, finding.place.span, kept)


def verify_entries(result: VerifyResult) -> Iterator[Entry]:
    """An entry for each intent."""
    return map(_intent, result.intents)


def _intent(intent: IntentAnswer) -> Entry:
    lines = [intent.explanation, intent.reason]
    lines += witness_lines(intent.witness) if intent.witness else []
    return Entry(
        _INTENT_LEVELS[intent.status],
        f"intent-{intent.status.value}",
        f"{intent.title}: {intent.words}",
        intent.place.span,
        tuple(line for line in lines if line),
        intent.status is not IntentStatus.UNDECIDED,
    )


def failure_entries(failure: Failure) -> Iterator[Entry]:
    """An entry for each finding that stopped a command, or one for its message."""
    for found in failure.findings:
        lines = (f"help: {found.hint}",) if found.hint else ()
        yield Entry(_LEVELS[found.severity], found.code, found.message, found.span, lines)
    if not failure.findings:
        lines = (f"help: {failure.hint}",) if failure.hint else ()
        yield Entry(Level.ERROR, "failure", failure.message, None, lines)


def _undecided(question: str) -> Entry:
    return Entry(Level.ERROR, "undecided", f"not decided: {question}", is_decided=False)


def witness_lines(witness: Witness) -> list[str]:
    """The flow, then its verdicts."""
    lines = [f"for example {flow_words(witness.flow)}"]
    for label, verdict in witness.verdicts:
        head = f"{label}: " if label else ""
        lines += [f"{head}{line}" for line in verdict_words(verdict)]
    return lines


def omitted_lines(result: DiffResult) -> list[str]:
    """The numbers of regions that were found and are not entries; nothing if all are."""
    lines = [left_out_words(result.possible_counts, result.possible, MAY_BE)]
    if result.outcome is not DiffOutcome.UNDECIDED:
        lines.insert(0, left_out_words(result.counts, result.differences))
    return [f"{line}; --all shows every region" for line in lines if line]


def place_in_work_tree(span: Span, options: ReportOptions) -> dict[str, str]:
    """The file relative to the working directory, and the range; of another commit the file alone."""
    if span.file.startswith(("<", "bundle:")):
        return {}
    if span.file.startswith("git:"):
        return {"file": span.file.removeprefix("git:").partition(":")[2] or "."}
    root = (options.root or Path.cwd()).resolve()
    path = Path(root, span.file).resolve()
    file = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    if span.line < 1:
        return {"file": file}
    place = {"file": file, "line": str(span.line), "col": str(max(1, span.column))}
    if span.end_column > span.column:
        place |= {"endLine": str(span.line), "endColumn": str(span.end_column)}
    return place


def shown(lines: Sequence[str]) -> str:
    """Lines as one text whose characters do not act."""
    return "\n".join(map(printable, lines))
