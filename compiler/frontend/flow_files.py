# SPDX-License-Identifier: Apache-2.0
"""Where flows are written: the command line, CSV, JSON lines, and the scenarios of a test run."""

import csv
import io
import json
from collections.abc import Iterator, Mapping

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.flows import FlowRequest
from policyc.compiler.frontend.spelling import nearest
from policyc.ir.diagnostics import Report
from policyc.ir.spans import Span

_TEXTS = ("src", "dst", "protocol")
_NUMBERS = ("port", "icmp_type", "icmp_code", "family")
_FIELDS = frozenset((*_TEXTS, *_NUMBERS))
COMMAND_LINE = Span("<command line>", 0, 0)


def flow_from_arguments(src: str, dst: str, service: str, report: Report) -> FlowRequest | None:
    """`SRC DST PROTOCOL[/PORT]`; for ICMP the protocol may be followed by `/TYPE/CODE`."""
    protocol, *numbers = service.split("/")
    record: dict[str, object] = {"src": src, "dst": dst, "protocol": protocol}
    is_icmp = protocol.lower().startswith("icmp")
    names = ("icmp_type", "icmp_code") if is_icmp else ("port",)
    if len(numbers) > len(names):
        problem = f"{service!r} is not PROTOCOL[/PORT] or icmp[/TYPE/CODE]"
        report.add(codes.FLOWS_SYNTAX.at(COMMAND_LINE, flow="the flow", problem=problem))
        return None
    record.update(zip(names, numbers, strict=False))
    return flow_from_record(record, "the flow", COMMAND_LINE, report)


def flows_from_text(text: str, file: str, report: Report) -> Iterator[FlowRequest]:
    """The flows of a file: JSON lines where it begins with a brace, else CSV with a header."""
    if text.lstrip().startswith("{"):
        yield from _json_lines(text, file, report)
    else:
        yield from _csv(text, file, report)


def _json_lines(text: str, file: str, report: Report) -> Iterator[FlowRequest]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        span, name = Span(file, number, 1), f"line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as failure:
            report.add(codes.FLOWS_SYNTAX.at(span, flow=name, problem=f"not JSON: {failure}"))
            continue
        request = flow_from_record(record, name, span, report)
        if request is not None:
            yield request


def _csv(text: str, file: str, report: Report) -> Iterator[FlowRequest]:
    """Rows with a header; an empty cell is a field left out."""
    rows = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    for row in rows:
        span, name = Span(file, rows.line_num, 1), f"line {rows.line_num}"
        if None in row or None in row.values():
            problem = f"the header has {len(rows.fieldnames or ())} columns, this row has not"
            report.add(codes.FLOWS_SYNTAX.at(span, flow=name, problem=problem))
            continue
        record = {key.strip(): cell.strip() for key, cell in row.items() if cell.strip()}
        request = flow_from_record(record, name, span, report)
        if request is not None:
            yield request


def flow_from_record(record: object, name: str, span: Span, report: Report) -> FlowRequest | None:
    """The flow that a JSON object or a CSV row stands for; None where it is none."""
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
    """A field misspelt is an error; one that is like none of ours is ignored, with a warning."""
    for field in record.keys() - _FIELDS:
        near = nearest(field, _FIELDS)
        if near is None:
            report.add(codes.IGNORED_FIELD.at(span, flow=name, name=field))
        else:
            finding = codes.FLOWS_SYNTAX.at(span, flow=name, problem=f"unknown field `{field}`")
            report.add(finding.help(f"did you mean `{near}`?"))


def _text(
    record: Mapping[str, object], field: str, name: str, span: Span, report: Report
) -> str | None:
    value = record.get(field)
    if field == "protocol" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value:
        return value
    problem = f"`{field}` is missing" if value is None else f"`{field}` is no text"
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
    problem = f"`{field}` is not a number: {value!r}"
    report.add(codes.FLOWS_SYNTAX.at(span, flow=name, problem=problem))
    return None
