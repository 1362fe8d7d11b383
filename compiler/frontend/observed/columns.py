# SPDX-License-Identifier: Apache-2.0
"""Observed flows as columns of numbers: each end and each service is resolved once."""

from array import array
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.flows.columns import Asked, FlowColumns
from policyc.compiler.frontend.flows.reading import FlowRequest
from policyc.compiler.frontend.kubernetes.addresses import parse_address
from policyc.compiler.frontend.observed.placing import Placed, Placing, Unplaced
from policyc.compiler.frontend.observed.records import (
    BadRecordError,
    EndRecord,
    FlowRecord,
    Seen,
    ServiceRecord,
)
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.spans import NOWHERE

Counts = npt.NDArray[np.int64]
_Key = tuple[ServiceRecord, tuple[int, ...], tuple[int, ...], int | None]


@dataclass(frozen=True)
class DistinctFlows:
    """Different flows, with the numbers of observations and of those that were denied."""

    flows: FlowColumns
    counts: Counts
    denied: Counts


@dataclass
class ObservedColumns:
    """The flows read so far. Columns of equal length; `ends` and `questions` are what they number."""

    placing: Placing
    flows: FlowColumns = field(default_factory=FlowColumns)
    counts: "array[int]" = field(default_factory=lambda: array("Q"))
    denied: bytearray = field(default_factory=bytearray)
    seen: bytearray = field(default_factory=bytearray)
    unplaced: Counter[str] = field(default_factory=Counter)
    unplaced_at: dict[str, int] = field(default_factory=dict)
    """Reason -> the line of the first such flow."""
    _ends: dict[EndRecord, int | Unplaced] = field(default_factory=dict)
    _placed: list[Placed] = field(default_factory=list)
    _questions: dict[Asked, int] = field(default_factory=dict)
    _asked: dict[_Key, int | Diagnostic] = field(default_factory=dict)

    def add(self, record: FlowRecord, line: int) -> None:
        """One more record; raises BadRecordError if its service is none."""
        src, dst = self._end(record.src), self._end(record.dst)
        for end, name in ((src, "source"), (dst, "destination")):
            if isinstance(end, Unplaced):
                self._leave_out(f"{name}: {end.why}", record, line)
                return
        assert isinstance(src, int) and isinstance(dst, int)
        asked = self._question(record, src, dst)
        if isinstance(asked, Diagnostic):
            self._leave_out(asked.message.removeprefix(": "), record, line)
            return
        self.flows.src.append(src)
        self.flows.dst.append(dst)
        self.flows.asked.append(asked)
        self.flows.lines.append(line)
        self.counts.append(record.times)
        self.denied.append(record.is_denied)
        self.seen.append(record.seen)

    def _leave_out(self, why: str, record: FlowRecord, line: int) -> None:
        self.unplaced[why] += record.times
        self.unplaced_at.setdefault(why, line)

    def _end(self, record: EndRecord) -> int | Unplaced:
        found = self._ends.get(record)
        if found is None:
            placed = self.placing.place(record)
            found = placed if isinstance(placed, Unplaced) else self._number(placed)
            self._ends[record] = found
        return found

    def _number(self, placed: Placed) -> int:
        self._placed.append(placed)
        self.flows.ends.append(placed.end)
        return len(self._placed) - 1

    def _question(self, record: FlowRecord, src: int, dst: int) -> int | Diagnostic:
        """The service of the flow; the same for all ends of these families."""
        one, other, service = self._placed[src], self._placed[dst], record.service
        family = service.family or _family(record.src.address) or _family(record.dst.address)
        key = (service, one.families, other.families, family)
        found = self._asked.get(key)
        if found is None:
            found = self._asked[key] = self._resolved(service, one, other, family)
        if isinstance(found, Diagnostic) and found.code == codes.BAD_SERVICE.name:
            raise BadRecordError(found.message.removeprefix(": "), found.hint)
        return found

    def _resolved(
        self, service: ServiceRecord, src: Placed, dst: Placed, family: int | None
    ) -> int | Diagnostic:
        report = Report()
        request = FlowRequest("", NOWHERE, src.text, dst.text, *service[:4], family)
        flow = self.placing.index.flow(request, report)
        if flow is None:
            return report.findings[0]
        question = (flow.family, flow.service, None)
        found = self._questions.setdefault(question, len(self._questions))
        if found == len(self.flows.questions):
            self.flows.questions.append(question)
        return found

    def distinct(self) -> DistinctFlows:
        """Equal flows once. Records of both ends of a connection count once: the larger number."""
        flows, n_questions = self.flows, max(1, len(self.flows.questions))
        src, dst, asked, lines = (
            np.frombuffer(column, dtype=np.uint32)
            for column in (flows.src, flows.dst, flows.asked, flows.lines)
        )
        ends = np.array(same_ends(flows), dtype=np.uint64)
        key = (ends[src] * np.uint64(max(1, len(ends))) + ends[dst]) * np.uint64(n_questions)
        key += asked
        order = np.argsort(key, kind="stable")
        key = key[order]
        starts = np.flatnonzero(np.diff(key, prepend=key[:1] + np.uint64(1)) != 0)
        counts = np.frombuffer(self.counts, dtype=np.uint64).astype(np.int64)
        denied = np.where(np.frombuffer(self.denied, dtype=np.uint8), counts, 0)
        seen = np.frombuffer(self.seen, dtype=np.uint8)
        first = order[starts]
        columns = (_column(column[first]) for column in (src, dst, asked, lines))
        return DistinctFlows(
            FlowColumns(flows.ends, flows.questions, *columns),
            _summed(counts[order], seen[order], starts),
            _summed(denied[order], seen[order], starts),
        )


def _family(text: str) -> int | None:
    address = parse_address(text) if text else None
    return None if address is None else address.version


def same_ends(flows: FlowColumns) -> list[int]:
    """For each end the number of the first that is equal."""
    seen: dict[object, int] = {}
    return [seen.setdefault(end, at) for at, end in enumerate(flows.ends)]


def _column(numbers: npt.NDArray[np.uint32]) -> "array[int]":
    column = array("I")
    column.frombytes(numbers.tobytes())
    return column


def _summed(counts: Counts, seen: npt.NDArray[np.uint8], starts: Counts) -> Counts:
    """The sum of each run of equal flows; of the two ends' records the larger sum."""
    if not len(starts):
        return counts
    sums = {
        place: np.add.reduceat(np.where(seen == place, counts, 0), starts)
        for place in Seen
        if (seen == place).any()
    }
    zero = np.zeros(len(starts), dtype=np.int64)
    at_source, at_destination = (sums.get(end, zero) for end in (Seen.SOURCE, Seen.DESTINATION))
    found: Counts = sums.get(Seen.ANYWHERE, zero) + np.maximum(at_source, at_destination)
    return found
