# SPDX-License-Identifier: Apache-2.0
"""A file of observed flows, line by line: its format, its records, and what is not understood."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import BinaryIO

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.flows.files import FlowCsv
from policyc.compiler.frontend.observed import calico, csv_rows, events, hubble
from policyc.compiler.frontend.observed.columns import ObservedColumns
from policyc.compiler.frontend.observed.placing import Placing
from policyc.compiler.frontend.observed.records import (
    BadRecordError,
    FlowRecord,
    Record,
    Skipped,
)
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.spans import Span

HUBBLE, CALICO, EVENTS, CSV = "hubble", "calico", "events", "csv"
FORMATS = (HUBBLE, CALICO, EVENTS, CSV)
MOST_ERRORS = 20
"""Reading stops after so many lines that are not understood."""
_FLOW_OF: dict[str, Callable[[Record], FlowRecord | Skipped]] = {
    HUBBLE: hubble.flow_of,
    CALICO: calico.flow_of,
    EVENTS: events.flow_of,
    CSV: csv_rows.flow_of,
}
_HINT = f"give --flows-format ({', '.join(FORMATS)}), one record a line"


@dataclass(frozen=True, slots=True)
class ObservedFile:
    """Lines of observed flows. `shown` is their name in messages; `form` None: told by the first."""

    lines: Iterable[str]
    shown: str
    form: str | None = None
    skip_unknown: bool = False


@dataclass
class Observed:
    """What a file has. `unknown` counts lines that are not understood and were to be skipped."""

    columns: ObservedColumns
    shown: str
    form: str = ""
    n_records: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    errors: list[Diagnostic] = field(default_factory=list)


def read_observed(file: ObservedFile, placing: Placing) -> Observed:
    """The flows of a file; InputError with the lines that are not understood, or without any flow."""
    found = Observed(ObservedColumns(placing), file.shown)
    for line, record in _records(file, found):
        found.n_records += 1
        try:
            given = record if isinstance(record, FlowRecord | Skipped) else _raised(record)
            if isinstance(given, Skipped):
                found.skipped[given.why] += 1
            else:
                found.columns.add(given, line)
        except BadRecordError as bad:
            _not_understood(found, file, line, bad)
            if len(found.errors) == MOST_ERRORS:
                break
    if not found.errors and not found.n_records:
        raise InputError([_finding(file, 1, "flows", "there is no record").help(_HINT)])
    if found.errors:
        raise InputError(found.errors)
    return found


def _raised(bad: BadRecordError) -> FlowRecord:
    raise bad


def _not_understood(found: Observed, file: ObservedFile, line: int, bad: BadRecordError) -> None:
    if file.skip_unknown:
        found.unknown += 1
        return
    hint = bad.hint or "--skip-unknown skips and counts such lines"
    found.errors.append(_finding(file, line, found.form, bad.problem).help(hint))


def _finding(file: ObservedFile, line: int, form: str, problem: str) -> Diagnostic:
    return codes.OBSERVED_SYNTAX.at(Span(file.shown, line, 1), form=form, problem=problem)


_Read = tuple[int, FlowRecord | Skipped | BadRecordError]


def _records(file: ObservedFile, found: Observed) -> Iterator[_Read]:
    """Each record with its line; the format goes into `found`."""
    numbered = ((at, line) for at, line in enumerate(file.lines, 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        return
    form = file.form or _form_of(first[1])
    if form is None:
        problem = "the format of the first line is not known"
        raise InputError([_finding(file, first[0], "flows", problem).help(_HINT)])
    found.form = form
    lines = chain([first], numbered)
    yield from _rows(file, lines) if form == CSV else _objects(lines, _FLOW_OF[form])


def _form_of(line: str) -> str | None:
    """The format of a file by its first line."""
    if line.lstrip()[:1] not in ("{", "["):
        return CSV
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    if events.is_event(record):
        return EVENTS
    if calico.is_calico(record):
        return CALICO
    return HUBBLE if hubble.is_hubble(record) else None


def _objects(
    lines: Iterable[tuple[int, str]], flow_of: Callable[[Record], FlowRecord | Skipped]
) -> Iterator[_Read]:
    for at, line in lines:
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise BadRecordError("expected a JSON object")
            yield at, flow_of(record)
        except BadRecordError as bad:
            yield at, bad
        except (ValueError, RecursionError) as failure:
            yield at, BadRecordError(f"not JSON: {failure}")


def _rows(file: ObservedFile, lines: Iterator[tuple[int, str]]) -> Iterator[_Read]:
    """The rows below the header; a header that is not understood is an error in any case."""
    at, line = next(lines)
    try:
        header = _cells(line)
        csv_rows.check_header(header)
    except BadRecordError as bad:
        raise InputError([_finding(file, at, CSV, bad.problem).help(bad.hint)]) from bad
    for at, line in lines:
        try:
            cells = _cells(line)
            if len(cells) != len(header):
                problem = f"the header has {len(header)} columns, this row has {len(cells)}"
                raise BadRecordError(problem)
            record = {name: cell for name, cell in zip(header, cells, strict=True) if cell}
            yield at, csv_rows.flow_of(record)
        except BadRecordError as bad:
            yield at, bad


def _cells(line: str) -> list[str]:
    """The cells of one line: a cell of observed flows has no line break."""
    if '"' not in line:
        return [cell.strip() for cell in line.split(",")]
    try:
        return [cell.strip() for cell in next(csv.reader([line], FlowCsv))]
    except csv.Error as failure:
        raise BadRecordError(f"not CSV: {failure}") from failure


def text_lines(stream: BinaryIO, shown: str) -> Iterator[str]:
    """The lines of a stream as text; InputError where it is not UTF-8."""
    for at, line in enumerate(stream, 1):
        try:
            yield line.decode("utf-8-sig" if at == 1 else "utf-8")
        except UnicodeDecodeError as bad:
            byte = f"0x{bad.object[bad.start]:02x}"
            raise InputError([codes.NOT_UTF8.at(Span(shown, at, 0), byte=byte)]) from None
