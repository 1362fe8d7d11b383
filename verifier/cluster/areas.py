# SPDX-License-Identifier: Apache-2.0
"""Areas: sets of services, with the source ports where rules read them, as interned numbers.

An area is a tuple of (first source port, last, service keys). The entries are disjoint and ascending,
and neighbours with equal keys are joined, so that equal areas are equal values. A service without source
ports is in every entry.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from policyc.ir.intervals import IntervalSet
from policyc.verifier.cluster.outcomes import Segment

LAST_PORT = 65535
Area = tuple[tuple[int, int, IntervalSet], ...]
NOTHING: Area = ()


def area_of(segments: Iterable[Segment]) -> Area:
    """The area of some segments."""
    given = [(s.source_lo, s.source_hi, (s.lo, s.hi)) for s in segments]
    return _canonical((lo, hi, [keys]) for lo, hi, keys in given)


def meet(one: Area, other: Area) -> Area:
    """The intersection of two areas."""
    return _canonical(
        (max(lo, low), min(hi, high), (mine & theirs).spans)
        for lo, hi, mine in one
        for low, high, theirs in other
        if max(lo, low) <= min(hi, high)
    )


def join(one: Area, other: Area) -> Area:
    """The union of two areas."""
    return _canonical((lo, hi, keys.spans) for lo, hi, keys in (*one, *other))


def without(area: Area, keys: IntervalSet) -> Area:
    """The area without some service keys."""
    return _canonical((lo, hi, (mine - keys).spans) for lo, hi, mine in area)


def has(area: Area, key: int, source_port: int | None) -> bool:
    """Whether a service is in an area; without a source port, whether it is for every source port."""
    return all(
        any(lo <= port <= hi and key in keys for lo, hi, keys in area)
        for port in ((0, LAST_PORT) if source_port is None else (source_port,))
    )


def _canonical(parts: Iterable[tuple[int, int, Iterable[tuple[int, int]]]]) -> Area:
    given = [(lo, hi, list(spans)) for lo, hi, spans in parts]
    cuts = sorted({c for lo, hi, spans in given if spans for c in (lo, hi + 1)})
    found: list[tuple[int, int, IntervalSet]] = []
    for lo, after in pairwise(cuts):
        keys = IntervalSet.of(
            span for low, high, spans in given if low <= lo <= high for span in spans
        )
        if found and found[-1][2] == keys and found[-1][1] == lo - 1:
            found[-1] = (found[-1][0], after - 1, keys)
        elif keys:
            found.append((lo, after - 1, keys))
    return tuple(found)


@dataclass
class Areas:
    """Areas as numbers, 0 for the empty one; each intersection and union is computed once."""

    known: list[Area] = field(default_factory=lambda: [NOTHING])
    _numbers: dict[Area, int] = field(default_factory=lambda: {NOTHING: 0})
    _meets: dict[tuple[int, int], int] = field(default_factory=dict)
    _joins: dict[tuple[int, int], int] = field(default_factory=dict)

    def number(self, area: Area) -> int:
        """The number of an area."""
        found = self._numbers.setdefault(area, len(self.known))
        if found == len(self.known):
            self.known.append(area)
        return found

    def meet(self, one: int, other: int) -> int:
        """The intersection of two areas."""
        if one == other or not one or not other:
            return one and other
        key = (one, other) if one < other else (other, one)
        if key not in self._meets:
            self._meets[key] = self.number(meet(self.known[one], self.known[other]))
        return self._meets[key]

    def join(self, one: int, other: int) -> int:
        """The union of two areas."""
        if one == other or not one or not other:
            return one or other
        key = (one, other) if one < other else (other, one)
        if key not in self._joins:
            self._joins[key] = self.number(join(self.known[one], self.known[other]))
        return self._joins[key]
