# SPDX-License-Identifier: Apache-2.0
"""Differences of two policy sets over a cluster: first one end at a time, then as connections.

A connection needs egress at its source and ingress at its destination. A difference at one end shows
only where the other end allows the connection. Otherwise the difference is *latent*.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from policyc.ir.bits import members, union
from policyc.ir.policy import Action, Direction, Policy, PolicySet
from policyc.ir.results.diff import DifferenceKind
from policyc.verifier.cluster.outcomes import (
    Decider,
    Outcome,
    Segment,
    changed,
    segments_of,
)
from policyc.verifier.cluster.rows import Matching, Row, Rules
from policyc.verifier.cluster.space import Space

Said = tuple[Action, int]
"""(action, effects) of one end."""
Pair = tuple[Row, Row]
OPEN: Said = (Action.ALLOW, 0)


@dataclass(frozen=True, slots=True)
class Cell:
    """Flows that change alike: from any of `src` to any of `dst` (columns) of the same family."""

    kind: DifferenceKind
    src: int
    dst: int
    segment: Segment
    direction: Direction
    effects: object = None


@dataclass
class Comparison:
    """Two policy sets over one space. `ignore_effects`: only actions count."""

    space: Space
    before: PolicySet
    after: PolicySet
    ignore_effects: bool = False
    pairs: dict[Direction, list[Pair]] = field(init=False)

    def __post_init__(self) -> None:
        interned: dict[object, Matching] = {}
        old = Rules(self.space, self.space.before, interned)
        new = old if self.space.after is self.space.before else Rules(
            self.space, self.space.after, interned
        )  # fmt: skip
        after = shared(self.before, self.after)
        self.decider = Decider(self.space.all)
        self.pairs = {}
        self._groups: dict[Direction, dict[tuple[int, int], list[int]]] = {}
        self._pair_of: dict[tuple[int, int], Pair] = {}
        for direction in Direction:
            rows = zip(old.rows(self.before, direction), new.rows(after, direction), strict=True)
            self.pairs[direction] = list(rows)
            groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
            for at, pair in enumerate(self.pairs[direction]):
                key = (id(pair[0]), id(pair[1]))
                groups[key].append(at)
                self._pair_of[key] = pair
            self._groups[direction] = dict(groups)
        self.compared = 0
        self._known: dict[tuple[int, int], tuple[list[Segment], list[Outcome], list[Outcome]]] = {}

    def cells(self, share: tuple[int, int] = (0, 1)) -> Iterator[Cell]:
        """Every difference; cells of one end may overlap in flows, kinds never contradict.

        `share` (k, of n): the cells of every n-th pair of rows, from the k-th on.
        """
        ends = {direction: list(self._differing(direction, share)) for direction in Direction}
        for direction in (Direction.INGRESS, Direction.EGRESS):
            for pair, classes in ends[direction]:
                yield from self._of_rows(direction, pair, classes)

    def _differing(
        self, direction: Direction, share: tuple[int, int]
    ) -> Iterator[tuple[Pair, list[int]]]:
        same: dict[tuple[object, object], bool] = {}
        for number, (key, classes) in enumerate(self._groups[direction].items()):
            if number % share[1] != share[0]:
                continue
            one, other = self._pair_of[key]
            contents = (one.content, other.content)
            if contents[0] == contents[1]:
                continue
            if contents not in same:
                same[contents] = self._are_same(one, other)
            if not same[contents]:
                yield (one, other), classes

    def _are_same(self, one: Row, other: Row) -> bool:
        self.compared += 1
        _, olds, news = self._decided((one, other))
        return not any(map(changed, olds, news))

    def _seen(self, outcome: Outcome) -> Outcome:
        """The outcome without ignored effects."""
        if not self.ignore_effects or all(effects == 0 for _, effects in outcome):
            return outcome
        out: Outcome = {}
        for (action, _), columns in outcome.items():
            out[action, 0] = out.get((action, 0), 0) | columns
        return out

    def _of_rows(self, direction: Direction, pair: Pair, classes: list[int]) -> Iterator[Cell]:
        """The cells of the classes of one row pair, as subjects of one direction."""
        mine = union(1 << c for at in classes for c in self.space.columns_of[at])
        for segment, before, after in zip(*self._decided(pair), strict=True):
            for old, new, peers in _parts(before, after):
                if old != new:
                    yield from self._of_part(direction, mine, segment, (old, new), peers)

    def _of_part(
        self, direction: Direction, mine: int, segment: Segment, said: tuple[Said, Said], peers: int
    ) -> Iterator[Cell]:
        """The peers to whom this end changed alike, split by the verdict of their own end."""
        other = Direction.EGRESS if direction is Direction.INGRESS else Direction.INGRESS
        for family, columns in self.space.of_family.items():
            subjects = mine & columns
            if not subjects:
                continue
            for pair, theirs in self._by_pair(other, peers & columns):
                yield from self._of_ends(direction, (subjects, theirs, family), segment, said, pair)

    def _by_pair(self, direction: Direction, columns: int) -> Iterator[tuple[Pair | None, int]]:
        """Columns by the rows that decide at their own end; None: no policy decides there."""
        rest = columns & self.space.outside
        groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for column in members(columns & ~self.space.outside):
            one, two = self.pairs[direction][self.space.columns[column].owner]
            if _is_open(one) and _is_open(two):
                rest |= 1 << column
            else:
                groups[id(one), id(two)].append(column)
        if rest:
            yield None, rest
        for key, found in groups.items():
            yield self._pair_of[key], union(1 << column for column in found)

    def _of_ends(
        self,
        direction: Direction,
        ends: tuple[int, int, int],
        segment: Segment,
        said: tuple[Said, Said],
        pair: Pair | None,
    ) -> Iterator[Cell]:
        subjects, peers, _ = ends
        if pair is None:
            yield from self._cell(direction, subjects, peers, segment, said, (OPEN, OPEN))
            return
        segments, olds, news = self._decided(pair)
        for part, at in _inside(segment, segments):
            for old, new, columns in _parts(olds[at], news[at]):
                hit = columns & subjects
                if not hit or (direction is Direction.EGRESS and old != new):
                    continue  # a difference at both ends is found from the destination
                yield from self._cell(direction, hit, peers, part, said, (old, new))

    def _decided(self, pair: Pair) -> tuple[list[Segment], list[Outcome], list[Outcome]]:
        key = (id(pair[0]), id(pair[1]))
        if key not in self._known:
            segments = segments_of(pair)
            olds, news = (
                [self._seen(outcome) for outcome in self.decider.outcomes(row, segments)]
                for row in pair
            )
            self._known[key] = segments, olds, news
        return self._known[key]

    def _cell(
        self,
        direction: Direction,
        subjects: int,
        peers: int,
        segment: Segment,
        mine: tuple[Said, Said],
        theirs: tuple[Said, Said],
    ) -> Iterator[Cell]:
        ingress = direction is Direction.INGRESS
        egress_said, ingress_said = (theirs, mine) if ingress else (mine, theirs)
        before = together(egress_said[0], ingress_said[0])
        after = together(egress_said[1], ingress_said[1])
        src, dst = (peers, subjects) if ingress else (subjects, peers)
        kind, detail = kind_of(before, after)
        yield Cell(kind, src, dst, segment, direction, detail)


def shared(before: PolicySet, after: PolicySet) -> PolicySet:
    """The second set, with equal objects replaced by those of the first: they are compiled once."""
    known = {policy.title: policy for tier in before.tiers for policy in tier.policies}

    def the_same(policy: Policy) -> Policy:
        other = known.get(policy.title)
        return other if other is not None and other == policy else policy

    return PolicySet(
        tuple(replace(tier, policies=tuple(map(the_same, tier.policies))) for tier in after.tiers)
    )


def together(egress: Said, ingress: Said) -> Said:
    """The outcome of a connection: the source's end first; a flow denied there goes no further."""
    if egress[0].is_deny:
        return egress
    return ingress[0], egress[1] | ingress[1]


def kind_of(before: Said, after: Said) -> tuple[DifferenceKind, object]:
    """The kind of a change between two verdicts, and the key of changes of one kind."""
    if before == after:
        return DifferenceKind.LATENT, None
    if before[0].is_deny == after[0].is_deny:
        return DifferenceKind.CHANGED, (before, after)
    return (DifferenceKind.NARROWED if after[0].is_deny else DifferenceKind.WIDENED), None


def _parts(before: Outcome, after: Outcome) -> Iterator[tuple[Said, Said, int]]:
    """The common refinement of two outcomes."""
    for old, mine in before.items():
        for new, theirs in after.items():
            if both := mine & theirs:
                yield old, new, both


def _inside(segment: Segment, others: list[Segment]) -> Iterator[tuple[Segment, int]]:
    """The intersections of a segment with some others, with the other's index."""
    for at, other in enumerate(others):
        lo, hi = max(segment.lo, other.lo), min(segment.hi, other.hi)
        source_lo = max(segment.source_lo, other.source_lo)
        source_hi = min(segment.source_hi, other.source_hi)
        if lo <= hi and source_lo <= source_hi:
            has = segment.has_source and other.has_source
            yield Segment(lo, hi, source_lo, source_hi, has), at


def _is_open(row: Row) -> bool:
    """Whether no flow is ever denied, or noted, here."""
    if not row.evaluated:
        return True
    return row.fallback is Action.ALLOW and not any(
        tier.unmatched is not None
        or any(m.effects or m.action not in (Action.ALLOW, Action.PASS) for m in tier.matchings)
        for tier in row.tiers
    )
