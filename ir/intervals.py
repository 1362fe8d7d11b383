# SPDX-License-Identifier: Apache-2.0
"""Finite sets of whole numbers as sorted, disjoint, non-adjacent closed intervals.

The form is canonical: equal sets are equal values. Used for service keys and for addresses.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from policyc.ir.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """A set of integers; `spans` are its maximal runs (lo, hi), both included, ascending."""

    spans: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(pairs: Iterable[tuple[int, int]]) -> "IntervalSet":
        """The union of closed intervals in any order; empty intervals (lo > hi) add nothing."""
        merged: list[tuple[int, int]] = []
        for lo, hi in sorted(pair for pair in pairs if pair[0] <= pair[1]):
            if merged and lo <= merged[-1][1] + 1:
                if hi > merged[-1][1]:
                    merged[-1] = (merged[-1][0], hi)
            else:
                merged.append((lo, hi))
        return IntervalSet(tuple(merged))

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.spans)

    def __contains__(self, value: int) -> bool:
        at = bisect_right(self.spans, value, key=lambda span: span[0]) - 1
        return at >= 0 and value <= self.spans[at][1]

    def __or__(self, other: "IntervalSet") -> "IntervalSet":
        if not self.spans:
            return other
        if not other.spans:
            return self
        return IntervalSet.of((*self.spans, *other.spans))

    def __and__(self, other: "IntervalSet") -> "IntervalSet":
        out: list[tuple[int, int]] = []
        mine, theirs = self.spans, other.spans
        i = j = 0
        while i < len(mine) and j < len(theirs):
            lo, hi = max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1])
            if lo <= hi:
                out.append((lo, hi))
            if mine[i][1] < theirs[j][1]:
                i += 1
            else:
                j += 1
        return IntervalSet(tuple(out))

    def __sub__(self, other: "IntervalSet") -> "IntervalSet":
        out: list[tuple[int, int]] = []
        cuts = other.spans
        j = 0
        for lo, hi in self.spans:
            while j < len(cuts) and cuts[j][1] < lo:
                j += 1
            at = j
            while at < len(cuts) and cuts[at][0] <= hi:
                if cuts[at][0] > lo:
                    out.append((lo, cuts[at][0] - 1))
                lo = cuts[at][1] + 1
                at += 1
            if lo <= hi:
                out.append((lo, hi))
        return IntervalSet(tuple(out))

    @property
    def size(self) -> int:
        """The number of members."""
        return sum(hi - lo + 1 for lo, hi in self.spans)
