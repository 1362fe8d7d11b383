# SPDX-License-Identifier: Apache-2.0
"""The outcome of a row with every peer, one service segment at a time.

A *segment* is a range of service keys (and of source ports, where rules read them) inside which every
rule of the rows at hand matches all or nothing. An *outcome* maps (action, effects) to columns: a
partition of all columns.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Action
from policyc.ir.services import ALL_SERVICES, Kind
from policyc.verifier.cluster.rows import Matching, Row, RowTier

Outcome = dict[tuple[Action, int], int]
_LAST_KEY = ALL_SERVICES.spans[-1][1]
_LAST_PORT = 65535
_WITHOUT_PORTS = Kind.ICMP << 16
"""The first service key of services without a source port."""


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """Service keys lo to hi, and source ports; (0, 65535) if no rule reads them."""

    lo: int
    hi: int
    source_lo: int = 0
    source_hi: int = _LAST_PORT
    has_source: bool = True

    @property
    def keys(self) -> IntervalSet:
        """The service keys."""
        return IntervalSet.of([(self.lo, self.hi)])


@dataclass(frozen=True, slots=True)
class Active:
    """The matchings of a row that match a segment, per tier, by index into the tier's."""

    segment: Segment
    tiers: tuple[tuple[int, ...], ...]
    is_failsafe: bool


def segments_of(rows: Iterable[Row]) -> list[Segment]:
    """The segments that the rules of some rows distinguish together, ascending."""
    cuts, sources = {0}, {0}
    for row in rows:
        for lo, hi in row.failsafes:
            cuts |= {lo, hi + 1}
        for tier in row.tiers:
            for matching in tier.matchings:
                for lo, hi in matching.services:
                    cuts |= {lo, hi + 1}
                for lo, hi in matching.sources or ():
                    sources |= {lo, hi + 1}
    if len(sources) > 1 or any(
        m.sources is not None for r in rows for t in r.tiers for m in t.matchings
    ):
        cuts.add(_WITHOUT_PORTS)
        return list(_by_source(_ranges(cuts, _LAST_KEY), _ranges(sources, _LAST_PORT)))
    return [Segment(lo, hi) for lo, hi in _ranges(cuts, _LAST_KEY)]


def _by_source(keys: list[tuple[int, int]], sources: list[tuple[int, int]]) -> Iterator[Segment]:
    for lo, hi in keys:
        if lo >= _WITHOUT_PORTS:
            yield Segment(lo, hi, has_source=False)
            continue
        for source_lo, source_hi in sources:
            yield Segment(lo, hi, source_lo, source_hi)


def _ranges(cuts: set[int], last: int) -> list[tuple[int, int]]:
    starts = sorted(cut for cut in cuts if cut <= last)
    return list(zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True))


def active_in(row: Row, segments: list[Segment]) -> list[Active]:
    """The matchings that match in each of some segments; the segments must be of this row's cuts."""
    starts = sorted({segment.lo for segment in segments})
    by_start = [[_active_from(tier, starts)] for tier in row.tiers]
    found = []
    for segment in segments:
        at = bisect_left(starts, segment.lo)
        tiers = tuple(
            tuple(i for i in by[0][at] if _has_source(tier.matchings[i], segment))
            for tier, by in zip(row.tiers, by_start, strict=True)
        )
        found.append(Active(segment, tiers, segment.lo in row.failsafes))
    return found


def _active_from(tier: RowTier, starts: list[int]) -> list[list[int]]:
    """For each start the matchings that contain it, in evaluation order."""
    out: list[list[int]] = [[] for _ in starts]
    for index, matching in enumerate(tier.matchings):
        for lo, hi in matching.services:
            at = bisect_left(starts, lo)
            while at < len(starts) and starts[at] <= hi:
                out[at].append(index)
                at += 1
    return out


def _has_source(matching: Matching, segment: Segment) -> bool:
    if matching.sources is None:
        return True
    return segment.has_source and segment.source_lo in matching.sources


@dataclass
class Decider:
    """Decides rows; caches decisions by the set of active matchings."""

    all_columns: int
    _known: dict[object, Outcome] = field(default_factory=dict)

    def outcomes(self, row: Row, segments: list[Segment]) -> list[Outcome]:
        """The outcome of each segment."""
        return [self.decide(row, active) for active in active_in(row, segments)]

    def decide(self, row: Row, active: Active) -> Outcome:
        """The outcome if these matchings are active."""
        if active.is_failsafe or not row.evaluated:
            return {(Action.ALLOW, 0): self.all_columns}
        key = (
            row.fallback,
            *(
                (tier.unmatched, tuple(id(tier.matchings[i]) for i in indices))
                for tier, indices in zip(row.tiers, active.tiers, strict=True)
            ),
        )
        if key not in self._known:
            self._known[key] = self._decide(row, active)
        return self._known[key]

    def _decide(self, row: Row, active: Active) -> Outcome:
        out: Outcome = {}
        waiting = {0: self.all_columns}
        for tier, indices in zip(row.tiers, active.tiers, strict=True):
            waiting = through_tier(tier, indices, waiting, out)
            if not waiting:
                return out
        for effects, columns in waiting.items():
            add(out, (row.fallback, effects), columns)
        return out


def through_tier(
    tier: RowTier, indices: Iterable[int], waiting: dict[int, int], out: Outcome
) -> dict[int, int]:
    """Add the tier's decisions to `out`; returns the undecided part, effects -> columns."""
    left, passed = dict(waiting), dict[int, int]()
    for index in indices:
        matching = tier.matchings[index]
        for effects, columns in list(left.items()):
            hit = columns & matching.columns
            if not hit:
                continue
            after = effects | matching.effects
            if matching.action.goes_on:
                if after != effects:
                    _move(left, effects, after, hit)
                continue
            _take(left, effects, hit)
            if matching.action is Action.PASS:
                passed[after] = passed.get(after, 0) | hit
            else:
                add(out, (matching.action, after), hit)
        if not left:
            break
    for effects, columns in left.items():
        if tier.unmatched is not None:
            add(out, (tier.unmatched, effects), columns)
        else:
            passed[effects] = passed.get(effects, 0) | columns
    return passed


def add(out: Outcome, key: tuple[Action, int], columns: int) -> None:
    """Add columns to a part of an outcome."""
    out[key] = out.get(key, 0) | columns


def _take(left: dict[int, int], effects: int, hit: int) -> None:
    rest = left[effects] & ~hit
    if rest:
        left[effects] = rest
    else:
        del left[effects]


def _move(left: dict[int, int], before: int, after: int, hit: int) -> None:
    _take(left, before, hit)
    left[after] = left.get(after, 0) | hit


def changed(before: Outcome, after: Outcome) -> int:
    """The columns whose action or effects differ."""
    if before is after or before == after:
        return 0
    out = 0
    for key in before.keys() | after.keys():
        out |= before.get(key, 0) ^ after.get(key, 0)
    return out


def with_action(outcome: Outcome, *actions: Action) -> int:
    """The columns with one of some actions, whatever the effects."""
    out = 0
    for (action, _), columns in outcome.items():
        if action in actions:
            out |= columns
    return out
