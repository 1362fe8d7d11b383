# SPDX-License-Identifier: Apache-2.0
"""The parts of a SARIF 2.1.0 log: locations, code flows, fingerprints, the run around them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from policyc.backends.report.options import ReportOptions
from policyc.backends.report.steps import steps_of
from policyc.ir.diagnostics import Note, Severity
from policyc.ir.printable import json_text, printable, printable_lines
from policyc.ir.results.common import Evidence, Place, UniverseUsed, Witness
from policyc.ir.spans import Span

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
ROOT = "%SRCROOT%"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SarifRule:
    """A kind of result: its id, a sentence, help, and its default level.

    `security` is a score from 0 to 10 by which code scanning blocks a change; empty: no security result.
    """

    id: str
    title: str
    help: str
    level: str
    security: str = ""


@dataclass(frozen=True, slots=True)
class SarifResult:
    """One result: its rule, its message, its place (None: not in a file), and related places."""

    rule: str
    level: str
    message: str
    place: Place | None
    key: str
    witness: Witness | None = None
    related: tuple[Note, ...] = ()
    suppressed: str = ""
    properties: Json = field(default_factory=dict)


def log(command: str, rules: Sequence[SarifRule], results: Sequence[Json], **run: Any) -> str:
    """A whole log with one run; `run` are further properties of it."""
    driver: Json = {"name": "policyc", "rules": [_rule(rule) for rule in rules]}
    try:
        driver["semanticVersion"] = version("policyc")
    except PackageNotFoundError:
        driver["properties"] = {"version": "not installed"}
    whole = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"policyc/{command}/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            ROOT: {"description": {"text": "The directory that policyc was run in."}}
        },
        "results": list(results),
        **run,
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [_shown(whole)]}, indent=2)


def message_lines(*parts: str) -> str:
    """A message of several lines: the parts that are not empty, each printable."""
    return "\n".join(printable(part) for part in parts if part)


_TO_READ = frozenset({"text", "justification", "fullyQualifiedName"})
"""The members that a viewer shows; others, such as URIs and properties, are data."""


def _shown(value: Any) -> Any:
    """A part of a log whose displayed members are made printable; a message keeps its lines."""
    match value:
        case dict():
            return {
                key: printable_lines(item)
                if key in _TO_READ and isinstance(item, str)
                else _shown(item)
                for key, item in value.items()
            }
        case list() | tuple():
            return [_shown(item) for item in value]
        case _:
            return value


def _rule(rule: SarifRule) -> Json:
    shown: Json = {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.title},
        "help": {"text": rule.help or rule.title},
        "defaultConfiguration": {"level": rule.level},
    }
    if rule.security:
        shown["properties"] = {"tags": ["security"], "security-severity": rule.security}
    return shown


def result(made: SarifResult, rules: Sequence[SarifRule], options: ReportOptions) -> Json:
    """A result of a run with these rules."""
    index = next(at for at, rule in enumerate(rules) if rule.id == made.rule)
    print_ = fingerprint(made.key)
    shown: Json = {
        "ruleId": made.rule,
        "ruleIndex": index,
        "level": made.level,
        "message": {"text": made.message},
        "locations": [] if made.place is None else [location(made.place, options)],
        "partialFingerprints": {"policyc/v1": print_, "primaryLocationLineHash": f"{print_}:1"},
    }
    if made.witness is not None:
        shown["codeFlows"] = [code_flow(made.witness, options)]
    if made.related:
        shown["relatedLocations"] = [
            {"id": at, **note_location(note, options)} for at, note in enumerate(made.related)
        ]
    if made.suppressed:
        shown["suppressions"] = [{"kind": "inSource", "justification": made.suppressed}]
    if made.properties:
        shown["properties"] = made.properties
    return shown


def fingerprint(key: str) -> str:
    """A key that is the same for the same finding, wherever the finding moves."""
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def location(place: Place, options: ReportOptions) -> Json:
    """A rule or policy: its region, and its name."""
    shown: Json = {"logicalLocations": [{"fullyQualifiedName": place.words}]}
    physical = physical_location(place.span, options)
    return shown if physical is None else {"physicalLocation": physical, **shown}


def note_location(note: Note, options: ReportOptions) -> Json:
    """A second place and its relation to the result."""
    shown: Json = {"message": {"text": note.text}}
    physical = physical_location(note.span, options)
    return shown if physical is None else {"physicalLocation": physical, **shown}


def physical_location(span: Span, options: ReportOptions) -> Json | None:
    """File and region; None for a source that is not a file (standard input, the command line).

    Of `git:REV:PATH` only the file: the lines are those of another revision.
    """
    if span.file.startswith("<"):
        return None
    if span.file.startswith("git:"):
        _, _, path = span.file.removeprefix("git:").partition(":")
        return {"artifactLocation": artifact(path or ".", options)}
    where: Json = {"artifactLocation": artifact(span.file, options)}
    if span.line > 0:
        region: Json = {"startLine": span.line, "startColumn": max(1, span.column)}
        if span.end_column > span.column:
            region["endColumn"] = span.end_column
        where["region"] = region
    return where


def artifact(file: str, options: ReportOptions) -> Json:
    """A file as a URI relative to the directory of the run; a file outside of it as a whole URI."""
    root = (options.root or Path.cwd()).resolve()
    path = Path(file)
    absolute = path if path.is_absolute() else root / path
    if ".." in absolute.parts:
        absolute = absolute.resolve()
    if absolute.is_relative_to(root):
        return {"uri": _quoted(absolute.relative_to(root).as_posix()), "uriBaseId": ROOT}
    return {"uri": f"file://{_quoted(absolute.as_posix())}"}


def _quoted(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"), safe="/")


def code_flow(witness: Witness, options: ReportOptions) -> Json:
    """The witness, step by step."""
    locations = []
    for step in steps_of(witness):
        where: Json = {"message": {"text": step.text}}
        if step.place is not None:
            where |= location(step.place, options)
        locations.append({"location": where})
    return {
        "message": {"text": str(witness.flow)},
        "threadFlows": [{"locations": locations}],
    }


def run_properties(universe: UniverseUsed, evidence: Evidence, **more: Any) -> Json:
    """The universe of an answer and its certification, as the run's properties."""
    solvers = [f"{name} {number}" for name, number in evidence.solvers]
    return {
        "universe": {"kind": universe.kind, "words": universe.words},
        "evidence": {
            "method": evidence.method,
            "solvers": solvers,
            "queries": evidence.queries,
            "replayedWitnesses": evidence.replayed_witnesses,
        },
        **more,
    }


def invocation(undecided: Iterable[str], notes: Iterable[str] = ()) -> list[Json]:
    """The run itself: an undecided question is an error of the run, never a finding's absence."""
    errors = [{"level": "error", "message": {"text": f"not decided: {text}"}} for text in undecided]
    said = [{"level": "note", "message": {"text": text}} for text in notes]
    run: Json = {"executionSuccessful": not errors}
    if errors or said:
        run["toolExecutionNotifications"] = [*errors, *said]
    return [run]
