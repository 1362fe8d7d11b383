# SPDX-License-Identifier: Apache-2.0
"""A whole listing compared with another evaluator: every pair of columns, every run of services.

The evaluator works from policies and ends alone, by independent code (native code, which the driver
supplies). Flows that it cannot decide are counted and not compared. A difference is a bug in policyc, so
the command gives no answer.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from policyc.ir.bits import members
from policyc.ir.errors import InternalError
from policyc.ir.services import ALL_SERVICES, Kind, Service
from policyc.ir.universe import FAMILIES, End, Flow, Node
from policyc.verifier.cluster.behaviour import OF_OTHER_FAMILY
from policyc.verifier.cluster.listing import Listing

MOST_FLOWS = 50_000_000
"""The number of flows that are compared; of more, those of evenly spread sources."""
Ends = Sequence[tuple[End, int]]
"""Ends, each in a family."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The number of compared flows, and the position of the first that differs from the listing."""

    count: int
    wrong: int | None = None


class Evaluator(Protocol):
    """Evaluates policies on flows between ends, which are numbers in the order given."""

    @property
    def borders(self) -> Sequence[int]:
        """The service keys at which any of its verdicts may change."""
        ...

    def compare(
        self, src: int, dsts: Sequence[int], keys: Sequence[int], listed: bytes
    ) -> Compared:
        """Flows from one end to each destination for each key, keys fastest; `listed` 1: allowed.

        Flows that are allowed whatever policies say (A22, A23, A26) are not compared.
        """
        ...


@dataclass(frozen=True, slots=True)
class Recheck:
    """The number of flows between representatives that were computed again, of all."""

    compared: int
    all: int


def recheck(
    listing: Listing, make: Callable[[Ends], Evaluator], most: int | None = MOST_FLOWS
) -> Recheck:
    """Compare; InternalError at the first flow that differs from the listing. `most` None: all."""
    work = _Work(listing)
    evaluator = make(work.ends)
    keys = {family: work.keys(family, evaluator.borders) for family in FAMILIES}
    total = sum(len(work.destinations(src)) * len(keys[work.family(src)]) for src in work.columns)
    step = 1 if most is None else max(1, -(-total // most))
    compared = 0
    by_label: defaultdict[int, list[int]] = defaultdict(list)
    for src in work.columns[::step]:
        by_label[listing.behaviour.labels[src]].append(src)
    for label, sources in by_label.items():
        areas = work.areas_from(label)
        for src in sources:
            mine = keys[work.family(src)]
            dsts = work.destinations(src)
            said = work.said(areas, dsts, mine)
            numbers = [work.second[dst] if dst == src else work.number[dst] for dst in dsts]
            found = evaluator.compare(work.number[src], numbers, mine, said)
            if found.wrong is not None:
                to, key = divmod(found.wrong, len(mine))
                flow = work.flow(work.number[src], numbers[to], mine[key])
                raise InternalError(f"compiled code does not confirm what is listed of {flow}")
            compared += found.count
    return Recheck(compared, total)


class _Work:
    """The columns of a listing with their ends. `second` is another end of a column, if it has one."""

    def __init__(self, listing: Listing) -> None:
        self.listing, self.space = listing, listing.space
        self.columns = list(range(len(self.space.columns)))
        self.ends: list[tuple[End, int]] = []
        self.number: list[int] = []
        self.second: list[int] = []
        for at in self.columns:
            ends = list(self._ends_of(at))
            self.number.append(len(self.ends))
            self.second.append(len(self.ends) + len(ends) - 1)
            self.ends += [(end, self.family(at)) for end in ends]
        decided = listing.behaviour.decided
        self._of_family = {f: members(self.space.of_family[f]) for f in FAMILIES}
        self._decided = {f: members(self.space.of_family[f] & decided) for f in FAMILIES}
        self._bytes: dict[tuple[int, int], bytes] = {}

    def family(self, column: int) -> int:
        """The family that a column's ends talk in."""
        return self.space.columns[column].family

    def destinations(self, src: int) -> list[int]:
        """The columns of the same family for which policies apply to one of the two ends."""
        is_decided = self.listing.behaviour.decided >> src & 1
        return (self._of_family if is_decided else self._decided)[self.family(src)]

    def keys(self, family: int, borders: Sequence[int]) -> list[int]:
        """The first key of every run of services that the listing or the evaluator distinguishes."""
        known = self.listing.behaviour.areas.known
        spans = (span for area in known for _, _, keys in area for span in keys)
        cuts = {kind << 16 for kind in Kind} | set(borders)
        for lo, hi in spans:
            cuts |= {lo, hi + 1}
        possible = ALL_SERVICES - OF_OTHER_FAMILY[family]
        return sorted(key for key in cuts if key in possible)

    def areas_from(self, label: int) -> list[int]:
        """For each column the area that the columns of a label may use of it."""
        found = [0] * len(self.columns)
        for area, columns in self.listing.behaviour.out(label):
            for at in members(columns):
                found[at] = area
        return found

    def said(self, areas: list[int], dsts: list[int], keys: list[int]) -> bytes:
        """A byte for each destination and key: 1 if the listing says that it is allowed."""
        return b"".join([self._of_area(areas[dst], keys) for dst in dsts])

    def _of_area(self, area: int, keys: list[int]) -> bytes:
        where = (area, id(keys))
        if where not in self._bytes:
            parts = self.listing.behaviour.areas.known[area]
            self._bytes[where] = bytes(any(key in part for _, _, part in parts) for key in keys)
        return self._bytes[where]

    def flow(self, src: int, dst: int, key: int) -> Flow:
        """A flow for people to read."""
        (one, family), (other, _) = self.ends[src], self.ends[dst]
        return Flow(one, other, Service.from_key(key), family)

    def _ends_of(self, at: int) -> Iterator[End]:
        """One or two ends of a column. Of a node only its address is known (A22)."""
        column = self.space.columns[at]
        if column.owner < 0:
            assert column.example is not None
            yield column.example
            return
        found = self.space.classes[column.owner]
        sites = [self.space.sites[member] for member in found.members[:2]]
        ends = [site.before for site in sites]
        if len(ends) == 1 and sites[0].twin is not None:
            ends.append(sites[0].twin)
        for end in ends:
            yield replace(end, speaks=False) if isinstance(end, Node) else end
