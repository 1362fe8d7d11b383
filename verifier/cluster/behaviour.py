# SPDX-License-Identifier: Apache-2.0
"""The flows that each end of a cluster allows, the flows that both ends allow, and equal behaviour.

A *reach* maps areas (sets of services) to the columns with which an end may talk. Columns behave equally
if they reach the same columns, and are reached by the same columns, for the same services.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from policyc.ir.bits import bits_of, members, union
from policyc.ir.policy import Action, Direction, PolicySet
from policyc.ir.services import ALL_SERVICES, Kind, kind_span
from policyc.ir.universe import Endpoint
from policyc.verifier.cluster.areas import LAST_PORT, Areas, area_of, without
from policyc.verifier.cluster.outcomes import Decider, segments_of, with_action
from policyc.verifier.cluster.rows import Row, Rules
from policyc.verifier.cluster.space import Space

Reach = tuple[tuple[int, int], ...]
"""(area, columns) by area; the columns of two areas are disjoint."""
OF_OTHER_FAMILY = {4: kind_span(Kind.ICMPV6), 6: kind_span(Kind.ICMP)}
"""The services that flows of a family cannot have."""
MOST_LABELS = 4000
"""Up to so many sorts of columns, columns are compared by their reaches; beyond, by rules."""
_CHUNK = 256


@dataclass
class Behaviour:
    """The reaches of a cluster's columns. `marked` columns are never merged with others.

    `labels` give for each column the number of its behaviour; `first` is one column of each label.
    `is_coarse` False: only columns that no rule distinguishes in effect were merged.
    """

    space: Space
    policies: PolicySet
    marked: int = 0
    areas: Areas = field(default_factory=Areas)

    def __post_init__(self) -> None:
        space = self.space
        rules = Rules(space, space.before, {})
        self.rows = {d: rules.rows(self.policies, d) for d in Direction}
        self._decider = Decider(space.all)
        self._reaches: dict[object, Reach] = {}
        self._in_family: dict[tuple[int, int], Reach] = {}
        self._kept: dict[Reach, Reach] = {}
        self._stripped: dict[tuple[int, int], int] = {}
        self.everything = self.areas.number(((0, LAST_PORT, ALL_SERVICES),))
        self.decided = bits_of([at for at, c in enumerate(space.columns) if self._asks(c.owner)])
        self._alike_alone()
        self._connect()
        self._out: list[Reach] | None = None
        self.is_coarse = len(self.first) <= MOST_LABELS
        if self.is_coarse:
            self._alike_together()

    def _asks(self, owner: int) -> bool:
        """Whether policies apply to the end: a pod, or a host under host policy."""
        return owner >= 0 and any(self.rows[d][owner].evaluated for d in Direction)

    # One end alone.

    def own(self, direction: Direction, column: int) -> Reach:
        """What the end's own rules allow, within the column's family."""
        found = self.space.columns[column]
        if found.owner < 0:
            reach: Reach = ((self.everything, self.space.all),)
            return self._of_family(self._kept.setdefault(reach, reach), found.family)
        return self._of_family(self._of_row(self.rows[direction][found.owner]), found.family)

    def _of_row(self, row: Row) -> Reach:
        key = row.content
        if key not in self._reaches:
            segments = segments_of([row])
            by_mask: dict[int, list[int]] = {}
            for at, outcome in enumerate(self._decider.outcomes(row, segments)):
                by_mask.setdefault(with_action(outcome, Action.ALLOW), []).append(at)
            parts = (
                (self.areas.number(area_of(segments[at] for at in ats)), mask)
                for mask, ats in by_mask.items()
                if mask
            )
            reach = self._disjoint(parts)
            self._reaches[key] = self._kept.setdefault(reach, reach)
        return self._reaches[key]

    def _disjoint(self, parts: Iterable[tuple[int, int]]) -> Reach:
        """By column instead of by service: each column with the area of all its allowed services."""
        found: dict[int, int] = {}
        for area, mask in parts:
            split: dict[int, int] = {}
            rest = mask
            for other, columns in found.items():
                if both := columns & mask:
                    joined = self.areas.join(other, area)
                    split[joined] = split.get(joined, 0) | both
                    rest &= ~both
                if left := columns & ~mask:
                    split[other] = split.get(other, 0) | left
            if rest:
                split[area] = split.get(area, 0) | rest
            found = split
        return tuple(sorted(found.items()))

    def _of_family(self, reach: Reach, family: int) -> Reach:
        key = (id(reach), family)
        if key not in self._in_family:
            columns = self.space.of_family[family]
            found: dict[int, int] = {}
            for area, mask in reach:
                stripped = self._strip(area, family)
                if stripped and mask & columns:
                    found[stripped] = found.get(stripped, 0) | mask & columns
            mine = tuple(sorted(found.items()))
            self._in_family[key] = self._kept.setdefault(mine, mine)
        return self._in_family[key]

    def _strip(self, area: int, family: int) -> int:
        """The area without the ICMP of the other family."""
        key = (area, family)
        if key not in self._stripped:
            known = self.areas.known[area]
            self._stripped[key] = self.areas.number(without(known, OF_OTHER_FAMILY[family]))
        return self._stripped[key]

    # Labels.

    def _sort(self, column: int) -> object:
        """The sort of a column.

        Different sorts are never merged: families, pods, nodes, addresses, marks.
        """
        found = self.space.columns[column]
        is_pod = found.owner >= 0 and isinstance(self.space.classes[found.owner].before, Endpoint)
        return found.family, found.owner >= 0, is_pod, self.marked >> column & 1

    def _alike_alone(self) -> None:
        """Columns with equal rules of their own, that no other column's rules distinguish."""
        count = len(self.space.columns)
        mine = [
            (self.own(Direction.EGRESS, c), self.own(Direction.INGRESS, c)) for c in range(count)
        ]
        distinct = {id(reach): reach for pair in mine for reach in pair}
        masks = dict.fromkeys(mask for reach in distinct.values() for _, mask in reach)
        seen = alike(list(masks), count)
        keys = [(self._sort(c), id(mine[c][0]), id(mine[c][1]), seen[c]) for c in range(count)]
        self._label(keys)

    def _label(self, keys: Sequence[object]) -> None:
        numbers: dict[object, int] = {}
        self.labels = [numbers.setdefault(key, len(numbers)) for key in keys]
        self.first: list[int] = []
        for column, label in enumerate(self.labels):
            if label == len(self.first):
                self.first.append(column)

    def _alike_together(self) -> None:
        """Columns with equal reaches, and in the same parts of every other column's reaches."""
        out = [self._reach(column) for column in self.first]
        masks = dict.fromkeys(mask for reach in set(out) for _, mask in reach)
        seen = alike(list(masks), len(self.space.columns))
        numbers: dict[Reach, int] = {}
        rows = [numbers.setdefault(reach, len(numbers)) for reach in out]
        keys = [(self._sort(c), rows[label], seen[c]) for c, label in enumerate(self.labels)]
        before = self.labels
        self._label(keys)
        self._out = [out[before[column]] for column in self.first]

    # Both ends.

    def _connect(self) -> None:
        """For each label, the own rules that allow it: the input for computing reaches."""
        takers: dict[int, tuple[Reach, list[int]]] = {}
        for column in range(len(self.space.columns)):
            reach = self.own(Direction.INGRESS, column)
            takers.setdefault(id(reach), (reach, []))[1].append(column)
        firsts = bits_of(self.first)
        self._taking: list[int] = []
        self._admitting: dict[int, list[tuple[int, int]]] = {column: [] for column in self.first}
        for reach, columns in takers.values():
            family = self.space.of_family[self.space.columns[columns[0]].family]
            for area, mask in reach:
                part = (area, len(self._taking))
                for column in members(mask & firsts & family):
                    self._admitting[column].append(part)
            self._taking.append(bits_of(columns))

    def out(self, label: int) -> Reach:
        """The columns that the columns of a label reach, where both ends allow it."""
        if self._out is not None:
            return self._out[label]
        return self._reach(self.first[label])

    def _reach(self, column: int) -> Reach:
        scope = self.space.all if self.decided >> column & 1 else self.decided
        takers: dict[int, list[int]] = {}
        for area, taker in self._admitting[column]:
            takers.setdefault(area, []).append(taker)
        taking = [(area, union(self._taking[t] for t in ts)) for area, ts in takers.items()]
        found: dict[int, int] = {}
        for area, mask in self.own(Direction.EGRESS, column):
            mine = mask & scope
            for other, columns in taking:
                if both := mine & columns:
                    agreed = self.areas.meet(area, other)
                    if agreed:
                        found[agreed] = found.get(agreed, 0) | both
        return tuple(sorted(found.items()))


def alike(masks: list[int], count: int) -> list[int]:
    """For each of `count` columns a number: equal for columns that are in the same masks."""
    labels = [0] * count
    for start in range(0, len(masks), _CHUNK):
        text = "".join(f"{mask:0{count}b}" for mask in masks[start : start + _CHUNK])
        numbers: dict[tuple[int, str], int] = {}
        for column in range(count):
            key = (labels[column], text[count - 1 - column :: count])
            labels[column] = numbers.setdefault(key, len(numbers))
    return labels
