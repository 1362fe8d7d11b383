# SPDX-License-Identifier: Apache-2.0
"""Sources of flows: the command line, CSV, JSON lines, and the scenarios of a test run."""

import csv
import io
import json
from collections.abc import Iterator, Mapping

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.flows.reading import FlowRequest
from policyc.compiler.frontend.spelling import did_you_mean, nearest
from policyc.compiler.frontend.yaml.tree import clipped
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.spans import Span

_TEXTS = ("src", "dst", "protocol")
_NUMBERS = ("port", "icmp_type", "icmp_code", "family", "source_port")
_FIELDS = frozenset((*_TEXTS, *_NUMBERS))
_FORMS = (
    "write CSV with the header src,dst,protocol,port (icmp_type,icmp_code,family,source_port), or "
    "one JSON object a line"
)
COMMAND_LINE = Span("<command line>", 0, 0)


def flow_from_arguments(
    src: str, dst: str, service: str, report: Report, source_port: int | None = None
) -> FlowRequest | None:
    """`SRC DST PROTOCOL[/PORT]`; for ICMP the protocol may be followed by `/TYPE/CODE`."""
    protocol, *numbers = service.split("/")
    record: dict[str, object] = {"src": src, "dst": dst, "protocol": protocol}
    record["source_port"] = source_port
    is_icmp = protocol.lower().startswith("icmp")
    names = ("icmp_type", "icmp_code") if is_icmp else ("port",)
    if len(numbers) > len(names):
        problem = f"{service!r} is not PROTOCOL[/PORT] or icmp[/TYPE/CODE]"
        report.add(codes.FLOWS_SYNTAX.at(COMMAND_LINE, flow="the flow", problem=problem))
        return None
    record.update(zip(names, numbers, strict=False))
    return flow_from_record(record, "the flow", COMMAND_LINE, report)


def flows_from_text(text: str, file: str, report: Report) -> Iterator[FlowRequest]:
    """The flows of a file: JSON lines if it begins with a brace, else CSV with a header.

    A file without any flow is an error: it is usually the wrong file.
    """
    start = text.lstrip()[:1]
    if start == "[":
        finding = _file_finding(file, "a JSON array; expected one object a line")
        report.add(finding.help("split it: jq -c '.[]'"))
    elif not start:
        report.add(_file_finding(file, "the file is empty").help(_FORMS))
    elif start == "{":
        yield from _json_lines(text, file, report)
    else:
        yield from _csv(text, file, report)


def _file_finding(file: str, problem: str, line: int = 1) -> Diagnostic:
    return codes.FLOWS_SYNTAX.at(Span(file, line, 1), flow="flows", problem=problem)


def _json_lines(text: str, file: str, report: Report) -> Iterator[FlowRequest]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        span, name = Span(file, number, 1), f"line {number}"
        try:
            record = json.loads(line, object_pairs_hook=without_duplicates)
        except (ValueError, RecursionError) as failure:
            report.add(codes.FLOWS_SYNTAX.at(span, flow=name, problem=f"not JSON: {failure}"))
            continue
        request = flow_from_record(record, name, span, report)
        if request is not None:
            yield request


def without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; json.loads would silently keep the last of two equal keys."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field `{twice}` is given twice")
    return found


def _csv(text: str, file: str, report: Report) -> Iterator[FlowRequest]:
    """Rows with a header; an empty cell is an absent field."""
    rows = _rows(text, file, report)
    line, header = next(rows, (1, []))
    if not check_header(header, line, file, report):
        return
    is_empty = True
    for line, row in rows:
        is_empty = False
        span, name = Span(file, line, 1), f"line {line}"
        if len(row) != len(header):
            problem = f"the header has {len(header)} columns, this row has {len(row)}"
            report.add(codes.FLOWS_SYNTAX.at(span, flow=name, problem=problem))
            continue
        record = {column: cell for column, cell in zip(header, row, strict=True) if cell}
        request = flow_from_record(record, name, span, report)
        if request is not None:
            yield request
    if is_empty:
        report.add(_file_finding(file, "there is no flow below the header", line))


class FlowCsv(csv.excel):
    """CSV in the dialect of flow files."""

    skipinitialspace = True
    strict = True


def _rows(text: str, file: str, report: Report) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with its line; invalid CSV ends them."""
    rows = csv.reader(io.StringIO(text, newline=""), FlowCsv)
    try:
        for row in rows:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield rows.line_num, cells
    except csv.Error as failure:
        line = max(1, rows.line_num)
        report.add(_file_finding(file, f"not CSV: {failure}", line))


def check_header(header: list[str], line: int, file: str, report: Report) -> bool:
    """Whether the first row names known columns, each once, and those that every flow needs."""
    before = len(report.findings)
    if not _FIELDS & set(header):
        report.add(_file_finding(file, "the first line is not a header", line).help(_FORMS))
        return False
    for column in dict.fromkeys(header):
        if header.count(column) > 1:
            report.add(_file_finding(file, f"the column `{column}` is given twice", line))
        if column not in _FIELDS:
            finding = _file_finding(file, f"unknown field `{clipped(column)}`", line)
            report.add(finding.help(did_you_mean(column, _FIELDS)))
    for column in _TEXTS:
        if column not in header:
            report.add(_file_finding(file, f"the column `{column}` is missing", line))
    return len(report.findings) == before


def flow_from_record(record: object, name: str, span: Span, report: Report) -> FlowRequest | None:
    """The flow of a JSON object or a CSV row; None if it is not a flow."""
    if not isinstance(record, Mapping):
        report.add(codes.FLOWS_SYNTAX.at(span, flow=name, problem="expected an object"))
        return None
    own = Report()
    _check_fields(record, name, span, own)
    texts = {field: _text(record, field, name, span, own) for field in _TEXTS}
    numbers = {field: _number(record, field, name, span, own) for field in _NUMBERS}
    if numbers["family"] not in (None, 4, 6):
        own.add(codes.FLOWS_SYNTAX.at(span, flow=name, problem="`family` is 4 or 6"))
    report.findings += own.findings
    if own.errors:
        return None
    return FlowRequest(name, span, **texts, **numbers)  # type: ignore[arg-type]


def _check_fields(record: Mapping[str, object], name: str, span: Span, report: Report) -> None:
    """A misspelt field is an error; one that resembles no known field is ignored, with a warning."""
    for field in record.keys() - _FIELDS:
        near = nearest(field, _FIELDS)
        if near is None:
            report.add(codes.IGNORED_FIELD.at(span, flow=name, name=clipped(field)))
        else:
            finding = codes.FLOWS_SYNTAX.at(
                span, flow=name, problem=f"unknown field `{clipped(field)}`"
            )
            report.add(finding.help(f"did you mean `{near}`?"))


def _text(
    record: Mapping[str, object], field: str, name: str, span: Span, report: Report
) -> str | None:
    value = record.get(field)
    if field == "protocol" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value:
        return value
    problem = f"`{field}` is missing" if value is None else f"`{field}` is not text"
    report.add(codes.FLOWS_SYNTAX.at(span, flow=name, problem=problem))
    return None


def _number(
    record: Mapping[str, object], field: str, name: str, span: Span, report: Report
) -> int | None:
    value = record.get(field)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        return int(value)
    problem = f"`{field}` is not a number: {clipped(repr(value))}"
    report.add(codes.FLOWS_SYNTAX.at(span, flow=name, problem=problem))
    return None
