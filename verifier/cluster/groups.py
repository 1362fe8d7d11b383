# SPDX-License-Identifier: Apache-2.0
"""Groups of ends that behave equally, and the services that a member of one group may use of another.

A pod has one label in each family (see `Behaviour`), and pods with the same labels are one group. If the
node of a pod is unknown and matters, the pod has several labels and is in a group for each.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from policyc.ir.bits import bits_of, members, union
from policyc.ir.universe import FAMILIES, Endpoint, end_name
from policyc.verifier.cluster.areas import without
from policyc.verifier.cluster.behaviour import OF_OTHER_FAMILY, Behaviour

PODS, NODES, OUTSIDE = "pods", "nodes", "outside"
KINDS = (PODS, NODES, OUTSIDE)
MOST_JOINS = 200_000
"""The number of pairs (group, external addresses) up to which external addresses join their families."""
Talk = tuple[tuple[int, ...], int]
"""(families, area): the allowed services."""


@dataclass(frozen=True, slots=True)
class Group:
    """Ends by name (none for external addresses) under one label of each family in `labels`."""

    kind: str
    names: tuple[str, ...]
    labels: tuple[tuple[int, int], ...]
    columns: int
    is_alone: bool
    """One end, unlike any other: its flows to itself need no verdict (A23)."""
    is_decided: bool
    is_whole: bool = True
    """No other end has its columns, so words for the columns are words for it."""

    @property
    def families(self) -> tuple[int, ...]:
        """The families in which it can talk."""
        return tuple(family for family, _ in self.labels)


@dataclass
class Groups:
    """The groups of a cluster in order: pods, nodes, external addresses, each by name."""

    behaviour: Behaviour
    all: list[Group] = field(init=False)

    def __post_init__(self) -> None:
        self.space = self.behaviour.space
        self._columns: defaultdict[int, list[int]] = defaultdict(list)
        for column, label in enumerate(self.behaviour.labels):
            self._columns[label].append(column)
        families: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for found in self.space.columns:
            if found.owner >= 0:
                families[self._names(found.owner)[0]].add(found.family)
        self._dual = [
            len(families[self._names(owner)[0]]) > 1 for owner in range(len(self.space.classes))
        ]
        inside = [*self._inside()]
        self.all = sorted(inside, key=_order)
        self.all = [*self.all, *self._outside()]
        self._of_label: defaultdict[int, list[int]] = defaultdict(list)
        for at, group in enumerate(self.all):
            for _, label in group.labels:
                self._of_label[label].append(at)
        self._single = {
            family: bits_of([at for at, g in enumerate(self.all) if g.families == (family,)])
            for family in FAMILIES
        }
        self._parts: defaultdict[str, int] = defaultdict(int)
        for at, group in enumerate(self.all):
            for name in group.names:
                self._parts[name] |= 1 << at
        self._crowds = self._crowded_groups()
        self._firsts = bits_of(self.behaviour.first)
        self._sets: dict[int, int] = {}
        self._reached: dict[int, int] = {}

    def _inside(self) -> Iterator[Group]:
        """Pods and nodes by name."""
        labels: defaultdict[tuple[str, str], dict[int, set[int]]] = defaultdict(dict)
        for column, found in enumerate(self.space.columns):
            if found.owner >= 0:
                for end in self._names(found.owner):
                    mine = labels[end].setdefault(found.family, set())
                    mine.add(self.behaviour.labels[column])
        units: defaultdict[tuple[str, tuple[tuple[int, int], ...]], list[str]] = defaultdict(list)
        for (kind, name), by_family in labels.items():
            for unit in _units(by_family):
                units[kind, unit].append(name)
        for (kind, unit), names in units.items():
            yield self._group(kind, tuple(sorted(names)), unit)

    def _names(self, owner: int) -> list[tuple[str, str]]:
        ends = (self.space.sites[m].before for m in self.space.classes[owner].members)
        return [
            (PODS, e.qualified_name) if isinstance(e, Endpoint) else (NODES, end_name(e))
            for e in ends
        ]

    def _group(
        self, kind: str, names: tuple[str, ...], labels: tuple[tuple[int, int], ...]
    ) -> Group:
        """The columns of the labels that these ends have, and no other ends' columns."""
        wanted = set(names)
        ats = [
            column
            for _, label in labels
            for column in self._columns[label]
            if kind == OUTSIDE or not wanted.isdisjoint(self._plain(column))
        ]
        classes = {self.space.columns[at].owner for at in ats} - {-1}
        alone = len(names) == 1 and all(self.space.classes[c].is_single for c in classes)
        decided = any(self.behaviour.decided >> at & 1 for at in ats)
        whole = kind == OUTSIDE or all(self._plain(at) <= wanted for at in ats)
        return Group(kind, names, labels, bits_of(ats), alone, decided, whole)

    def _plain(self, column: int) -> set[str]:
        return {name for _, name in self._names(self.space.columns[column].owner)}

    def _outside(self) -> list[Group]:
        """External addresses; those of both families together if nothing distinguishes them."""
        decided = self.behaviour.decided
        by_family: dict[int, list[int]] = {
            family: list(dict.fromkeys(
                self.behaviour.labels[at]
                for at in members(self.space.outside & mine) if decided & mine))
            for family, mine in self.space.of_family.items()
        }  # fmt: skip
        pairs: list[tuple[tuple[int, int], ...]] = []
        keys: dict[object, int] = {}
        n_labels = sum(map(len, by_family.values()))
        if by_family[4] and n_labels * max(1, len(self.behaviour.first)) <= MOST_JOINS:
            keys = {self._seen_from_inside(label): label for label in by_family[6]}
        joined: set[int] = set()
        for label in by_family[4]:
            other = keys.get(self._seen_from_inside(label)) if keys else None
            if other is None or other in joined:
                pairs.append(((4, label),))
            else:
                joined.add(other)
                pairs.append(((4, label), (6, other)))
        pairs += [((6, label),) for label in by_family[6] if label not in joined]
        return [self._group(OUTSIDE, (), pair) for pair in pairs]

    def _seen_from_inside(self, label: int) -> object:
        """The verdicts between an external label and each end of both families."""
        column = self.behaviour.first[label]
        family = self.space.columns[column].family
        said = []
        for at, other in enumerate(self.behaviour.first):
            found = self.space.columns[other]
            if found.family == family and found.owner >= 0 and self._dual[found.owner]:
                there = self._plain_area(self._area(label, other))
                back = self._plain_area(self._area(at, column))
                name = self._names(found.owner)[0]
                said.append((name, there, back, self.behaviour.marked >> column & 1))
        return tuple(sorted(said))

    def _plain_area(self, area: int) -> int:
        """The area without any ICMP of one family: equal for both families if they are alike."""
        known = self.behaviour.areas.known[area]
        for keys in OF_OTHER_FAMILY.values():
            known = without(known, keys)
        return self.behaviour.areas.number(known)

    def _area(self, label: int, column: int) -> int:
        """The services that the columns of a label may use of a column."""
        for area, columns in self.behaviour.out(label):
            if columns >> column & 1:
                return area
        return 0

    # Groups that never exist at once.

    def _crowded_groups(self) -> dict[tuple[int, int], int]:
        """(group, family) -> the groups that would need the one address that it can have there."""
        found: defaultdict[tuple[int, int], int] = defaultdict(int)
        spots = {(at, spot[0]): spot for at in range(len(self.all)) for spot in self._spots_of(at)}
        for (at, _), spot in spots.items():
            found[spot] |= 1 << at
        return {key: found[spot] for key, spot in spots.items()}

    def _spots_of(self, at: int) -> Iterator[tuple[int, int]]:
        """(family, run) in which a group has room for one end only."""
        group = self.all[at]
        for family in group.families:
            columns = members(group.columns & self.space.of_family[family])
            runs = {self.space.columns[column].run for column in columns}
            if len(runs) == 1:
                lo, hi = self.space.networks_of(min(runs), family)
                if lo == hi:
                    yield family, min(runs)

    def _crowded(self, at: int, family: int) -> int:
        return self._crowds.get((at, family), 0)

    def can_meet(self, at: int, other: int) -> bool:
        """Whether an end of one group and an end of the other can exist at once, in some family."""
        shared = set(self.all[at].families) & set(self.all[other].families)
        if at == other and self.all[at].is_alone:
            return False
        return any(not self._crowded(at, family) >> other & 1 for family in shared)

    # The allowed services between groups.

    def talks(self, at: int) -> dict[int, list[Talk]]:
        """For each group that the one at `at` may talk to: (families, area), families together."""
        group = self.all[at]
        found: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for family, label in group.labels:
            crowded = self._crowded(at, family)
            for area, columns in self.behaviour.out(label):
                for other in members(self._group_set(columns) & ~crowded):
                    if other != at or not group.is_alone:
                        found[other][family] = area
        return {other: self.merged(areas) for other, areas in sorted(found.items())}

    def reached(self, at: int) -> int:
        """The groups that the one at `at` may talk to at all, as a set."""
        if at not in self._reached:
            self.blocks(at)
        return self._reached[at]

    def blocks(self, at: int) -> dict[Talk, int]:
        """As `talks`, but by (families, area); both families: all that two groups share.

        A group alone may talk to itself, too: a reader of several groups reads fewer words.
        """
        group = self.all[at]
        sets: dict[int, dict[int, int]] = {}
        for family, label in group.labels:
            sets[family] = {a: self._group_set(m) for a, m in self.behaviour.out(label)}
        reached = union(
            groups & ~self._crowded(at, family)
            for family, mine in sets.items()
            for groups in mine.values()
        )
        self._reached[at] = reached & ~(1 << at) if group.is_alone else reached
        found: dict[Talk, int] = {}
        if len(sets) < 2:
            for family, mine in sets.items():
                for area, groups in mine.items():
                    self._add_wherever(found, family, area, groups)
            return found
        four, six = (self._with_none(sets[family]) for family in FAMILIES)
        for area, groups in four.items():
            for other, others in six.items():
                if (area or other) and groups & others:
                    self._add(found, {4: area, 6: other}, groups & others)
        return found

    def _with_none(self, sets: dict[int, int]) -> dict[int, int]:
        rest = (1 << len(self.all)) - 1
        for groups in sets.values():
            rest &= ~groups
        return {**sets, 0: rest}

    def is_partial(self, at: int, groups: int) -> bool:
        """Whether some end of the group at `at` is also in groups that are not all in `groups`."""
        return any(self._parts[name] & ~groups for name in self.all[at].names)

    def _add(self, found: dict[Talk, int], areas: dict[int, int], groups: int) -> None:
        """Groups of one family have one entry; for both families, equal entries may be merged."""
        both = groups
        for family, area in areas.items():
            single = groups & self._single[family]
            both &= ~single
            if area and single:
                self._add_wherever(found, family, area, single)
        if both:
            for talk in self.merged({f: a for f, a in areas.items() if a}):
                found[talk] = found.get(talk, 0) | both

    def _add_wherever(self, found: dict[Talk, int], family: int, area: int, groups: int) -> None:
        """An area in the only family that both groups have, as if for both families: the words agree."""
        talk = (FAMILIES, self._in_both(area, family))
        found[talk] = found.get(talk, 0) | groups

    def _in_both(self, area: int, family: int) -> int:
        """The area with all ICMP of the other family if it has all of its own."""
        own, others = OF_OTHER_FAMILY[10 - family], OF_OTHER_FAMILY[family]
        parts = self.behaviour.areas.known[area]
        return self.behaviour.areas.number(
            tuple((lo, hi, keys if own - keys else keys | others) for lo, hi, keys in parts)
        )

    def _group_set(self, columns: int) -> int:
        """The groups of some columns; the columns of one label come together."""
        key = columns & self._firsts
        if key not in self._sets:
            labels = (self.behaviour.labels[at] for at in members(key))
            ats = sorted({at for label in labels for at in self._of_label[label]})
            self._sets[key] = bits_of(ats)
        return self._sets[key]

    def merged(self, areas: dict[int, int]) -> list[Talk]:
        """Both families as one if they are equal except for services that a family cannot have."""
        numbers = self.behaviour.areas
        if len(areas) == len(FAMILIES):
            one, other = areas[4], areas[6]
            if self._plain_area(one) == self._plain_area(other) and one and other:
                return [((4, 6), numbers.join(one, other))]
        return [((family,), area) for family, area in sorted(areas.items())]

    def n_pairs(self) -> int:
        """The number of ordered pairs of groups between which policies could allow a flow."""
        sorts = Counter((g.families, g.is_decided, g.is_alone) for g in self.all)
        total = 0
        for (mine, decided, alone), count in sorts.items():
            for (theirs, also, _), other in sorts.items():
                if (decided or also) and set(mine) & set(theirs):
                    total += count * other
            if decided and alone:
                total -= count
        return total - self._n_never()

    def _n_never(self) -> int:
        """The number of ordered pairs of groups that can never meet."""
        crowds = set(self._crowds.values())
        pairs = {
            (one, two) for groups in crowds for one in members(groups) for two in members(groups)
        }
        return sum(
            (self.all[one].is_decided or self.all[two].is_decided)
            and not (one == two and self.all[one].is_alone)
            and not self.can_meet(one, two)
            for one, two in pairs
        )


def _units(by_family: dict[int, set[int]]) -> Iterator[tuple[tuple[int, int], ...]]:
    """One unit with a label a family; if a family has several labels, each label is its own unit."""
    if all(len(labels) == 1 for labels in by_family.values()):
        yield tuple((family, min(by_family[family])) for family in sorted(by_family))
        return
    for family in sorted(by_family):
        for label in sorted(by_family[family]):
            yield ((family, label),)


def _order(group: Group) -> tuple[int, tuple[str, ...], tuple[tuple[int, int], ...]]:
    return KINDS.index(group.kind), group.names, group.labels
