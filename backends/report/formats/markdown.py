# SPDX-License-Identifier: Apache-2.0
"""Results as Markdown, for a comment on a pull request: the summary first, the details folded.

The text is never longer than a comment may be: what does not fit is only counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from policyc.backends.report.coverage import MOST_NAMED, coverage_headline, coverage_lines
from policyc.backends.report.flows import flow_words
from policyc.backends.report.markdown_text import code, escaped
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.steps import steps_of
from policyc.backends.report.verdicts import where
from policyc.backends.report.words import (
    DID,
    MAY_BE,
    check_headline,
    clipped_lines,
    config_notes,
    diff_headline,
    evidence_words,
    left_out_words,
    object_lines,
    objects_words,
    opaque_notes,
    verify_headline,
)
from policyc.ir.counts import counted
from policyc.ir.diagnostics import Severity
from policyc.ir.results.check import CheckResult, Suppressed
from policyc.ir.results.common import Evidence, Finding, Place, UniverseUsed, Witness
from policyc.ir.results.diff import Difference, DifferenceKind, DiffOutcome, DiffResult
from policyc.ir.results.failure import Failure
from policyc.ir.results.objects import ObjectChanges
from policyc.ir.results.turns import in_turns, subject_of
from policyc.ir.results.verify import IntentAnswer, IntentStatus, VerifyResult

FORMAT = "markdown"

MOST_OBJECTS = 10
"""The number of namespaces and of policies that a comment shows."""
MAX_BYTES = 60_000
"""GitHub takes 65,536 characters, and a pipeline may add its own; bytes of UTF-8 are never fewer."""


@dataclass(frozen=True, slots=True)
class _Item:
    """One finding: a row of the summary's table, and its details.

    If there is no room for all items, those with a low `turn` are kept.
    """

    row: str
    title: str
    details: str
    turn: int = 0


def _comment(
    title: str,
    headline: str,
    notes: Sequence[str],
    columns: str,
    items: Sequence[_Item],
    foot: Sequence[str],
) -> str:
    """The comment, with as many rows, then as many details, as fit."""
    said, _ = _fitting([f"- {note}\n" for note in notes], MAX_BYTES // 8)
    start = f"## {title}\n\n{headline}\n\n{''.join(said)}"
    start += _left_out(len(notes) - len(said), "note") + ("\n" if said else "")
    end = "\n".join(f"<sub>{line}</sub>  " for line in foot) + "\n"
    table_head = f"{columns}\n{'|---' * columns.count(' | ')}|---|\n" if items else ""
    room = MAX_BYTES - _size(start) - _size(end) - _size(table_head) - 2 * _NOTE_ROOM
    turns = sorted(range(len(items)), key=lambda at: items[at].turn)
    kept, room = _kept([f"{item.row}\n" for item in items], turns, room)
    table = table_head + "".join(kept) + _left_out(len(items) - len(kept), "row") + "\n"
    details, _ = _kept([_folded(item) for item in items], turns, room)
    body = "".join(details) + _left_out(len(items) - len(details), "detail")
    return start + (table if items else "") + body + end


_NOTE_ROOM = 200


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _fitting(parts: Sequence[str], room: int) -> tuple[list[str], int]:
    """The first parts that fit, and the remaining room."""
    kept: list[str] = []
    for part in parts:
        if _size(part) > room:
            break
        kept.append(part)
        room -= _size(part)
    return kept, room


def _kept(parts: Sequence[str], turns: Sequence[int], room: int) -> tuple[list[str], int]:
    """The parts that fit, chosen in turns and given in their order, and the remaining room."""
    chosen, room = _fitting([parts[at] for at in turns], room)
    return [parts[at] for at in sorted(turns[: len(chosen)])], room


def _left_out(number: int, what: str) -> str:
    if not number:
        return ""
    return f"\n**{counted(number, what)} left out, because the report is too long.**\n\n"


def _folded(item: _Item) -> str:
    return f"<details><summary>{item.title}</summary>\n\n{item.details}\n</details>\n\n"


def diff_markdown(result: DiffResult, _options: ReportOptions) -> str:
    """The outcome, a row for each region, and its witness folded."""
    sides = f"{code(result.before)} → {code(result.after)}"
    headline = f"{_clipped(diff_headline(result))}: {sides}"
    turns = in_turns(result.differences, subject_of)
    turn_of = {at: turn for turn, at in enumerate(turns)}
    items = [_difference(at, each, turn_of[at]) for at, each in enumerate(result.differences)]
    items += [
        _difference(at, each, at, MAY_BE)
        for at, each in enumerate(result.possible, start=len(result.differences))
    ]
    sign = "✅" if result.outcome is DiffOutcome.EQUAL else "⚠️"
    title = f"{sign} policyc diff: {result.outcome.value}"
    foot = _foot(result.universe, result.evidence)
    columns = "| # | what | from | to | services |"
    more = _notes((*result.notes, *opaque_notes(result.opaque)))
    notes = [*_objects(result.objects), *_omitted(result), *more]
    return _comment(title, headline, notes, columns, items, foot)


def _objects(changes: ObjectChanges) -> list[str]:
    """The changed policies: how many, what that means, and which."""
    if not changes:
        return []
    meant = clipped_lines(changes.summary, MOST_OBJECTS, "namespace", "namespaces")
    lines = object_lines(changes, MOST_OBJECTS)
    return [
        f"**{objects_words(changes)}**",
        *(escaped(line) for line in meant),
        f"policies: {', '.join(code(line) for line in lines)}",
    ]


def _omitted(result: DiffResult) -> list[str]:
    """The omitted regions, and how to see them; an undecided diff counts nothing."""
    words = [left_out_words(result.possible_counts, result.possible, MAY_BE)]
    if result.outcome is not DiffOutcome.UNDECIDED:
        words.insert(0, left_out_words(result.counts, result.differences))
    return [f"{each}; `--all` shows every region" for each in words if each]


def _difference(
    at: int, difference: Difference, turn: int, words: Mapping[DifferenceKind, str] = DID
) -> _Item:
    number = at + 1
    did = words[difference.kind]
    src, dst = code(difference.src), code(difference.dst)
    services = code(", ".join(difference.services))
    lines = _witness(difference.witness)
    for label, places in (("before", difference.before), ("after", difference.after)):
        lines += [f"- decided {label} by {_place(place)}" for place in places]
    return _Item(
        f"| {number} | **{did}** | {src} | {dst} | {services} |",
        f"{number}. {did}: {src} → {dst}, {services}",
        "\n".join(lines) + "\n",
        turn,
    )


def check_markdown(result: CheckResult, _options: ReportOptions) -> str:
    """The number of findings, a row for each, and the reasons, folded."""
    notes = [f"**not decided:** {code(question)}" for question in result.undecided]
    said = (*config_notes(result.config), *result.notes, *opaque_notes(result.opaque))
    notes += _notes(said)
    if result.coverage is not None:
        notes += [coverage_headline(result.coverage)]
        notes += map(code, coverage_lines(result.coverage, MOST_NAMED))
    items = [_finding(at, finding) for at, finding in enumerate(result.findings, start=1)]
    if result.removable_together:
        items.append(_together(result.removable_together))
    items += [_suppressed(quiet) for quiet in result.suppressed]
    sign = "⚠️" if result.findings or result.undecided else "✅"
    foot = _foot(result.universe, result.evidence)
    title, columns = f"{sign} policyc check", "| # | finding | what | where |"
    return _comment(title, _clipped(check_headline(result)), notes, columns, items, foot)


_SIGNS = {Severity.ERROR: "🛑", Severity.WARNING: "⚠️", Severity.NOTE: "📝"}


def _finding(number: int, finding: Finding) -> _Item:
    message, at = code(finding.message), code(where(finding.place.span))
    lines = [f"- {code(part)}" for part in (finding.explanation,) if part]
    lines += [f"- at {_place(finding.place)}"]
    lines += [f"- {code(note.text)} ({code(where(note.span))})" for note in finding.notes]
    if finding.witness is not None:
        lines += _witness(finding.witness)
    if finding.hint:
        lines.append(f"- **fix:** {code(finding.hint)}")
    return _Item(
        f"| {number} | {_SIGNS[finding.severity]} {escaped(finding.code)} | {message} | {at} |",
        f"{number}. {escaped(finding.code)}: {message}",
        "\n".join(lines) + "\n",
    )


def _together(places: Sequence[Place]) -> _Item:
    title = f"{counted(len(places), 'rule')} can be removed together"
    lines = [f"- {_place(place)}" for place in places[:_MANY]]
    lines += [f"- and {len(places) - _MANY} more"] if len(places) > _MANY else []
    return _Item(f"| | proved | {title} | |", title, "\n".join(lines) + "\n")


_MANY = 100


def _suppressed(quiet: Suppressed) -> _Item:
    finding = quiet.finding
    message, at = code(finding.message), code(where(quiet.by.span))
    return _Item(
        f"| | suppressed {escaped(finding.code)} | {message} | {at} |",
        f"suppressed {escaped(finding.code)}: {message}",
        f"- reason: {code(quiet.reason)}\n- by {_place(quiet.by)}\n",
    )


def verify_markdown(result: VerifyResult, _options: ReportOptions) -> str:
    """The number of intents that hold, and a row for each; broken ones have their witness folded."""
    order = sorted(result.intents, key=lambda intent: intent.status is IntentStatus.HOLDS)
    items = [_intent(at, intent) for at, intent in enumerate(order, start=1)]
    broken = any(each.status is not IntentStatus.HOLDS for each in result.intents)
    title = f"{'⚠️' if broken else '✅'} policyc verify"
    foot = _foot(result.universe, result.evidence)
    headline, columns = _clipped(verify_headline(result)), "| # | status | intent | where |"
    notes = _notes((*result.notes, *opaque_notes(result.opaque)))
    return _comment(title, headline, notes, columns, items, foot)


def _intent(number: int, intent: IntentAnswer) -> _Item:
    title, at = code(intent.title), code(where(intent.place.span))
    lines = [
        f"- {code(part)}" for part in (intent.words, intent.reason, intent.explanation) if part
    ]
    if intent.witness is not None:
        lines += _witness(intent.witness)
    lines += [f"- decided by {_place(place)}" for place in intent.responsible]
    return _Item(
        f"| {number} | **{intent.status.value}** | {title} | {at} |",
        f"{number}. {intent.status.value}: {title}",
        "\n".join(lines) + "\n",
    )


def failure_markdown(failure: Failure, _options: ReportOptions) -> str:
    """The error that stopped the run."""
    lines = [
        f"- {code(where(f.span))}: {code(f.message)}{f' ({code(f.hint)})' if f.hint else ''}\n"
        for f in failure.findings
    ]
    shown, _ = _fitting(lines or [f"- {code(failure.message)}\n"], MAX_BYTES - 2 * _NOTE_ROOM)
    head = f"## 🛑 policyc failed (exit code {failure.exit_code})\n\n"
    return head + "".join(shown) + _left_out(len(lines) - len(shown), "finding")


def _witness(witness: Witness) -> list[str]:
    flow = flow_words(witness.flow)
    lines = [f"- for example {code(flow)}"]
    for step in steps_of(witness):
        at = "" if step.place is None else f" ({code(where(step.place.span))})"
        if step.text != flow:
            lines.append(f"  - {code(step.text)}{at}")
    return lines


def _place(place: Place) -> str:
    return f"{code(place.words)} ({code(where(place.span))})"


def _notes(notes: Sequence[str]) -> list[str]:
    return [code(note) for note in notes]


def _foot(universe: UniverseUsed, evidence: Evidence) -> list[str]:
    certified = _clipped(evidence_words(evidence))
    return [f"universe: {_clipped(universe.words)}", f"certified by: {certified}"]


def _clipped(text: str) -> str:
    return escaped(text[:_LONG])


_LONG = 1000

RENDERERS = {
    DiffResult: diff_markdown,
    CheckResult: check_markdown,
    VerifyResult: verify_markdown,
    Failure: failure_markdown,
}
