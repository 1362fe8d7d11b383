# SPDX-License-Identifier: Apache-2.0
"""Results as text for people: the answer first, then one paragraph for each finding."""

from collections.abc import Mapping, Sequence

from policyc.backends.report.coverage import MOST_NAMED, coverage_headline, coverage_lines
from policyc.backends.report.flows import end_details, flow_words
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.page import BAD, FAINT, GOOD, STRONG, WARN, Page
from policyc.backends.report.text import counts_left, first_of
from policyc.backends.report.verdicts import PAST, verdict_words, where
from policyc.backends.report.words import (
    DID,
    MAY_BE,
    check_headline,
    clipped_lines,
    config_notes,
    diff_headline,
    evidence_words,
    findings_by_kind,
    left_out_words,
    object_lines,
    objects_words,
    opaque_notes,
    region_words,
    verify_headline,
)
from policyc.ir.counts import counted
from policyc.ir.diagnostics import Diagnostic, Severity
from policyc.ir.diagnostics import render as render_diagnostic
from policyc.ir.results.check import CheckResult
from policyc.ir.results.common import Evidence, Finding, OpaquePart, Place, UniverseUsed, Witness
from policyc.ir.results.diff import Difference, DifferenceKind, DiffOutcome, DiffResult
from policyc.ir.results.objects import ObjectChanges
from policyc.ir.results.verify import IntentAnswer, IntentStatus, VerifyResult
from policyc.ir.universe import end_name

FORMAT = "text"

MOST_OBJECTS = 10
"""The number of namespaces and of policies that a summary shows."""
_DIFF_STYLES = {
    DifferenceKind.WIDENED: BAD,
    DifferenceKind.NARROWED: WARN,
    DifferenceKind.CHANGED: WARN,
    DifferenceKind.LATENT: FAINT,
}
_SEVERITY_STYLES = {Severity.ERROR: BAD, Severity.WARNING: WARN, Severity.NOTE: FAINT}
_STATUS_STYLES = {
    IntentStatus.HOLDS: GOOD,
    IntentStatus.BROKEN: BAD,
    IntentStatus.VACUOUS: WARN,
    IntentStatus.UNDECIDED: BAD,
}


def diff_text(result: DiffResult, options: ReportOptions) -> str:
    """The outcome, the regions, and the certification."""
    page = Page()
    style = GOOD if result.outcome is DiffOutcome.EQUAL else BAD
    page.add((result.outcome.value, f"{STRONG} {style}"), f": {diff_headline(result)}")
    page.add(f"from {result.before} to {result.after}", indent=2)
    _objects(page, result.objects, None if options.is_full else MOST_OBJECTS)
    for number, difference in enumerate(result.differences, start=1):
        page.gap()
        show_difference(page, number, difference, result.universe)
    page.gap()
    omitted = left_out_words(result.counts, result.differences)
    if omitted and result.outcome is not DiffOutcome.UNDECIDED:
        page.add(f"{omitted}; --all shows every region")
    show_possible(page, result.possible, len(result.differences), result.universe)
    may_be = left_out_words(result.possible_counts, result.possible, MAY_BE)
    if may_be:
        page.add(f"{may_be}; --all shows every region")
    _foot(page, _notes(result.notes, result.opaque), result.universe, result.evidence)
    return page.to_text(options)


def _objects(page: Page, changes: ObjectChanges, limit: int | None) -> None:
    """The changed policies: how many, what that means, and which."""
    if not changes:
        return
    page.gap()
    page.add((objects_words(changes), STRONG))
    for line in clipped_lines(changes.summary, limit, "namespace", "namespaces"):
        page.add(line, indent=2)
    page.gap()
    for line in object_lines(changes, limit):
        page.add((line, FAINT), indent=2)


def show_possible(
    page: Page, possible: Sequence[Difference], n_before: int, universe: UniverseUsed
) -> None:
    """The regions that may differ, numbered after those that do."""
    for number, difference in enumerate(possible, start=n_before + 1):
        page.gap()
        show_difference(page, number, difference, universe, MAY_BE)
    page.gap()


def _notes(notes: Sequence[str], opaque: Sequence[OpaquePart]) -> tuple[str, ...]:
    return (*notes, *opaque_notes(opaque))


def show_difference(
    page: Page,
    number: int,
    difference: Difference,
    universe: UniverseUsed,
    words: Mapping[DifferenceKind, str] = DID,
) -> None:
    """A region with its witness, as a numbered paragraph."""
    did = (words[difference.kind], f"{STRONG} {_DIFF_STYLES[difference.kind]}")
    pairs = ""
    if difference.n_pairs is not None:
        pairs = f" ({counted(difference.n_pairs, 'pair of pods', 'pairs of pods')})"
    direction = f", {difference.direction.value}" if difference.direction else ""
    page.add(f"{number}. ", did, f"{direction}: {region_words(difference)}{pairs}", hanging=3)
    _witness(page, difference.witness, universe, indent=3)


def _witness(page: Page, witness: Witness, universe: UniverseUsed, indent: int) -> None:
    """The flow, then its verdicts; for a pod that no file describes, its attributes."""
    page.add("for example ", flow_words(witness.flow), indent=indent)
    if universe.kind == "symbolic":
        for end in (witness.flow.src, witness.flow.dst):
            for detail in end_details(end):
                page.add((f"{end_name(end)}: {detail}", FAINT), indent=indent + 2)
    for label, verdict in witness.verdicts:
        action = verdict.action
        style = BAD if action.is_deny else GOOD
        head = f"{label}: " if label else ""
        for at, line in enumerate(verdict_words(verdict)):
            shown = line.removeprefix(PAST[action]) if at == 0 else line
            did = [(PAST[action], style)] if at == 0 else []
            page.add(head if at == 0 else " " * len(head), *did, shown, indent=indent, hanging=4)
    if not witness.verdicts:
        for step in witness.steps:
            page.add(step.text, _at(step.place), indent=indent)


def _at(place: Place | None) -> str:
    return "" if place is None else f" ({where(place.span)})"


def _foot(page: Page, notes: tuple[str, ...], universe: UniverseUsed, evidence: Evidence) -> None:
    for note in notes:
        page.add(f"note: {note}")
    page.add((f"universe: {universe.words}", FAINT))
    page.add((f"certified by: {evidence_words(evidence)}", FAINT))


def check_text(result: CheckResult, options: ReportOptions) -> str:
    """The number of findings of each kind, the findings, then the rules that can be removed together."""
    page = Page()
    style = BAD if result.findings or result.undecided else GOOD
    page.add((check_headline(result), f"{STRONG} {style}"))
    for line in findings_by_kind(result):
        page.add(line, indent=2)
    page.gap()
    shown = list(result.findings) if options.is_full else first_of(result.findings)
    for finding in shown:
        _finding(page, finding, result.universe, options)
        page.gap()
    if len(shown) < len(result.findings):
        page.add(f"not shown: {counts_left(result.findings, shown)}; --all shows every finding")
        page.gap()
    for quiet in result.suppressed:
        page.add(
            (f"suppressed[{quiet.finding.code}]", FAINT),
            f": {quiet.finding.message} (reason: {quiet.reason}){_at(quiet.by)}",
        )
    for question in result.undecided:
        page.add(("not decided", BAD), f": {question}")
    if result.removable_together:
        page.add("Proved: removing all of these rules together changes no verdict:")
        for place in result.removable_together:
            page.add(place.words, _at(place), indent=2)
    _coverage(page, result, options)
    page.gap()
    notes = (*config_notes(result.config), *result.notes)
    _foot(page, _notes(notes, result.opaque), result.universe, result.evidence)
    return page.to_text(options)


def _coverage(page: Page, result: CheckResult, options: ReportOptions) -> None:
    if result.coverage is None:
        return
    page.gap()
    page.add(coverage_headline(result.coverage))
    limit = None if options.is_full else MOST_NAMED
    for line in coverage_lines(result.coverage, limit):
        page.add(line, indent=2)


def _finding(page: Page, finding: Finding, universe: UniverseUsed, options: ReportOptions) -> None:
    span = finding.place.span
    severity = finding.severity
    label = (f"{severity.value}[{finding.code}]", f"{STRONG} {_SEVERITY_STYLES[severity]}")
    page.add(f"{where(span)}: ", label, f": {finding.message}")
    quoted = render_diagnostic(Diagnostic("", severity, "", span), options.line_of)
    _, _, excerpt = quoted.partition("\n")
    if excerpt:
        page.excerpt(excerpt)
    if finding.explanation:
        page.add(finding.explanation, indent=2, hanging=0)
    if finding.witness is not None:
        _witness(page, finding.witness, universe, indent=2)
    for note in finding.notes:
        page.add(f"{where(note.span)}: note: {note.text}")
    if finding.hint:
        page.add(f"help: {finding.hint}")


def verify_text(result: VerifyResult, options: ReportOptions) -> str:
    """A line for each intent; the reasons, for those that do not hold."""
    page = Page()
    for intent in result.intents:
        _intent(page, intent, result.universe)
    page.gap()
    broken = any(each.status is not IntentStatus.HOLDS for each in result.intents)
    page.add((verify_headline(result), f"{STRONG} {BAD if broken else GOOD}"))
    _foot(page, _notes(result.notes, result.opaque), result.universe, result.evidence)
    return page.to_text(options)


def _intent(page: Page, intent: IntentAnswer, universe: UniverseUsed) -> None:
    status = (intent.status.value, f"{STRONG} {_STATUS_STYLES[intent.status]}")
    page.add(status, f": {intent.title}{_at(intent.place)}")
    if intent.status is IntentStatus.HOLDS:
        return
    page.add(intent.words, indent=2)
    for text in (intent.explanation, intent.reason and f"reason: {intent.reason}"):
        if text:
            page.add(text, indent=2)
    if intent.witness is not None:
        _witness(page, intent.witness, universe, indent=2)
    for place in intent.responsible:
        page.add(f"decided by {place.words}", _at(place), indent=2)
    page.gap()


RENDERERS = {DiffResult: diff_text, CheckResult: check_text, VerifyResult: verify_text}
