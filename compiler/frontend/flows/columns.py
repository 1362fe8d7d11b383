# SPDX-License-Identifier: Apache-2.0
"""A large file of flows as columns of numbers: every end, and every service, is resolved once.

Only for files without mistakes. Any doubtful value gives None. The caller then reads the file again with
`flow_files`, flow by flow, which reports the mistake and its place.
"""

import csv
import io
from _csv import Reader
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from policyc.compiler.frontend.flows.files import (
    FlowCsv,
    check_header,
    flow_from_record,
    flows_from_text,
)
from policyc.compiler.frontend.flows.reading import (
    FlowRequest,
    UniverseIndex,
)
from policyc.ir.diagnostics import Report
from policyc.ir.services import Service
from policyc.ir.spans import Span
from policyc.ir.universe import End, Flow

_CHUNK = 1 << 16
_ENDS = ("src", "dst")
Cells = Sequence[object]
Asked = tuple[int, Service, int | None]
"""Family, service and source port of a flow."""


class _NotPlainError(Exception):
    """Something in the file needs the careful reader."""


@dataclass
class FlowColumns:
    """Flows as numbers, in parallel columns: `src` and `dst` among `ends`, `asked` among `questions`.

    `lines` are the lines of the flows.
    """

    ends: list[End] = field(default_factory=list)
    questions: list[Asked] = field(default_factory=list)
    src: "array[int]" = field(default_factory=lambda: array("I"))
    dst: "array[int]" = field(default_factory=lambda: array("I"))
    asked: "array[int]" = field(default_factory=lambda: array("I"))
    lines: "array[int]" = field(default_factory=lambda: array("I"))

    def __len__(self) -> int:
        return len(self.src)

    def flow(self, at: int) -> Flow:
        """One flow as the semantics take it."""
        family, service, source_port = self.questions[self.asked[at]]
        return Flow(self.ends[self.src[at]], self.ends[self.dst[at]], service, family, source_port)


def columns_of_text(
    text: str, file: str, index: UniverseIndex, report: Report
) -> FlowColumns | None:
    """The flows of a file; None if anything in it is wrong. Warnings are reported."""
    reading = _Reading(index)
    own = Report()
    try:
        if text.lstrip()[:1] in ("[", "{", ""):
            requests = list(flows_from_text(text, file, own))
            if not own.errors:
                reading.add_requests(requests)
        else:
            reading.add_csv(text)
    except (_NotPlainError, csv.Error):
        return None
    if own.errors or not len(reading.columns):
        return None
    report.findings += own.findings
    return reading.columns


@dataclass
class _Reading:
    """The ends and services resolved so far. Ends that can use the same families are of one class."""

    index: UniverseIndex
    columns: FlowColumns = field(default_factory=FlowColumns)
    _ends: dict[str, int] = field(default_factory=dict)
    _classes: list[int] = field(default_factory=list)
    _class_of: dict[tuple[int, ...], int] = field(default_factory=dict)
    _services: dict[Cells, int] = field(default_factory=dict)
    _asked: dict[tuple[int, int, int], int] = field(default_factory=dict)
    _questions: dict[Asked, int] = field(default_factory=dict)

    def add_requests(self, requests: Sequence[FlowRequest]) -> None:
        """Flows that were read already."""
        cells = [
            (r.protocol, r.port, r.icmp_type, r.icmp_code, r.family, r.source_port)
            for r in requests
        ]
        self._add(
            [r.src for r in requests],
            [r.dst for r in requests],
            cells,
            requests.__getitem__,
        )
        self.columns.lines.extend(r.span.line for r in requests)

    def add_csv(self, text: str) -> None:
        """Rows below a header."""
        rows = csv.reader(io.StringIO(text, newline=""), FlowCsv)
        header: list[str] = []
        while not any(header):
            header = [cell.strip() for cell in next(rows, ["?"])]
        if not check_header(header, 1, "", Report()):
            raise _NotPlainError
        places = [header.index(name) for name in _ENDS]
        others = [at for at, name in enumerate(header) if name not in _ENDS]
        for lines, chunk in _chunks(rows, len(header)):
            columns = list(zip(*chunk, strict=True))

            def request(at: int, chunk: list[list[str]] = chunk) -> FlowRequest:
                return _request(dict(zip(header, chunk[at], strict=True)))

            src, dst = (columns[at] for at in places)
            self._add(src, dst, list(zip(*(columns[at] for at in others), strict=True)), request)
            self.columns.lines.extend(lines)

    def _add(
        self,
        src: Sequence[str],
        dst: Sequence[str],
        cells: Sequence[Cells],
        request: Callable[[int], FlowRequest],
    ) -> None:
        """Flows; only those with something new in them are examined one by one."""
        sources, destinations = self._numbers(src), self._numbers(dst)
        services = self._services
        for new in set(cells).difference(services):
            services[new] = len(services)
        classes = self._classes.__getitem__
        keys = list(
            zip(
                map(classes, sources),
                map(classes, destinations),
                map(services.__getitem__, cells),
                strict=True,
            )
        )
        missing = set(keys).difference(self._asked)
        if missing:
            for at, key in enumerate(keys):
                if key in missing:
                    missing.discard(key)
                    self._asked[key] = self._question(request(at))
        self.columns.src.extend(sources)
        self.columns.dst.extend(destinations)
        self.columns.asked.extend(map(self._asked.__getitem__, keys))

    def _numbers(self, texts: Sequence[str]) -> list[int]:
        """The ends that texts name."""
        for text in set(texts).difference(self._ends):
            found = self.index.end(text.strip())
            if found is None:
                raise _NotPlainError
            end, families = found
            self._ends[text] = len(self.columns.ends)
            self.columns.ends.append(end)
            self._classes.append(self._class_of.setdefault(families, len(self._class_of)))
        return list(map(self._ends.__getitem__, texts))

    def _question(self, request: FlowRequest) -> int:
        """The service of a flow; the same for every pair of ends of the same classes."""
        flow = self.index.flow(request, Report())
        if flow is None:
            raise _NotPlainError
        question = (flow.family, flow.service, flow.source_port)
        found = self._questions.setdefault(question, len(self._questions))
        if found == len(self.columns.questions):
            self.columns.questions.append(question)
        return found


def _chunks(rows: "Reader", width: int) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Rows that are not blank with their lines, in chunks."""
    while True:
        lines: list[int] = []
        found: list[list[str]] = []
        for row in islice(rows, _CHUNK):
            found.append(row)
            lines.append(rows.line_num)
        if not found:
            return
        if set(map(len, found)) != {width}:
            kept = [at for at, row in enumerate(found) if any(map(str.strip, row))]
            found, lines = [found[at] for at in kept], [lines[at] for at in kept]
            if set(map(len, found)) - {width}:
                raise _NotPlainError
        if found:
            yield lines, found


def _request(record: dict[str, str]) -> FlowRequest:
    given = {name: cell.strip() for name, cell in record.items() if cell.strip()}
    request = flow_from_record(given, "", Span("", 0, 0), Report())
    if request is None:
        raise _NotPlainError
    return request
