# SPDX-License-Identifier: Apache-2.0
"""The connectivity of a cluster for readers: groups, the services between them, and merged lines."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from policyc.ir.bits import bits_of, members, union
from policyc.ir.errors import InternalError
from policyc.ir.intervals import IntervalSet
from policyc.ir.peers import AddressPeer, Network
from policyc.ir.policy import PolicySet
from policyc.ir.results.listing import (
    EndGroup,
    ListedConnection,
    ListedLine,
    ServiceRange,
    service_ranges,
)
from policyc.ir.semantics import verdict
from policyc.ir.services import ALL_SERVICES, Kind, describe_services
from policyc.ir.universe import FAMILIES, Universe, end_name
from policyc.verifier.cluster.areas import LAST_PORT
from policyc.verifier.cluster.behaviour import OF_OTHER_FAMILY, Behaviour
from policyc.verifier.cluster.diff import selectors_of
from policyc.verifier.cluster.groups import OUTSIDE, Groups, Talk
from policyc.verifier.cluster.reads import Reads
from policyc.verifier.cluster.regions import Examples
from policyc.verifier.cluster.sites import sites_of
from policyc.verifier.cluster.space import Space
from policyc.verifier.cluster.words import Words, listed, networks

MOST_REPLAYS = 500
"""The number of shown connections that the reference semantics confirm, one flow of each."""


@dataclass(frozen=True, slots=True)
class Focus:
    """The user's --focus: ends by `end_name`, and networks."""

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.networks)


@dataclass(frozen=True, slots=True)
class Block:
    """The services that each of some groups may use of each of others (sets of group numbers)."""

    src: int
    dst: int
    talk: Talk
    count: int


@dataclass
class Listing:
    """The matrix of one cluster under one policy set. `pod_networks` are the pods' networks."""

    policies: PolicySet
    universe: Universe
    pod_networks: tuple[Network, ...] = ()
    focus: Focus = Focus()
    groups: Groups = field(init=False)

    def __post_init__(self) -> None:
        reads = Reads.of((self.policies,))
        for network in self.focus.networks:
            reads.blocks[AddressPeer(network)] = None
        sites = sites_of(self.universe, self.universe, reads, self.pod_networks)
        self.space = Space(sites, reads, self.focus.names)
        self.behaviour = Behaviour(self.space, self.policies, self._marked())
        self.groups = Groups(self.behaviour)
        self._words: Words | None = None
        all_groups = (1 << len(self.groups.all)) - 1
        marked = [at for at, g in enumerate(self.groups.all) if g.columns & self.behaviour.marked]
        self.wanted = bits_of(marked) if self.focus else all_groups

    def _marked(self) -> int:
        """The columns of the ends in focus."""
        if not self.focus:
            return 0
        held = union(self.space.before.peer(AddressPeer(n), "") for n in self.focus.networks)
        named = [
            column
            for column, found in enumerate(self.space.columns)
            if found.owner >= 0
            and end_name(self.space.classes[found.owner].before) in self.focus.names
        ]
        return held | bits_of(named)

    # The matrix.

    def seen(self, at: int, groups: int) -> int:
        """The groups that are shown as destinations of the one at `at`."""
        return groups if self.wanted >> at & 1 else groups & self.wanted

    def n_connected(self) -> int:
        """The number of ordered pairs of groups that may talk at all."""
        every = range(len(self.groups.all))
        return sum(self.seen(at, self.groups.reached(at)).bit_count() for at in every)

    def n_pairs(self) -> int:
        """The number of ordered pairs of groups that policies could let talk."""
        if not self.focus:
            return self.groups.n_pairs()
        groups = self.groups.all
        return sum(
            1
            for at, one in enumerate(groups)
            for other in members(self.seen(at, (1 << len(groups)) - 1))
            if (one.is_decided or groups[other].is_decided) and self.groups.can_meet(at, other)
        )

    def connections(self, limit: int | None) -> Iterator[ListedConnection]:
        """The first pairs of groups with the allowed services, in order of the groups."""
        left = limit
        for at in range(len(self.groups.all)):
            if not self.seen(at, self.groups.reached(at)):
                continue
            for other, talks in self.groups.talks(at).items():
                if not self.seen(at, 1 << other):
                    continue
                if left is not None:
                    if not left:
                        return
                    left -= 1
                for families, area in talks:
                    yield self._connection(at, other, families, area)

    def _connection(
        self, src: int, dst: int, families: tuple[int, ...], area: int
    ) -> ListedConnection:
        services = self.services(families, area)
        return ListedConnection(src, dst, families, services, tuple(self._ranges(families, area)))

    def blocks(self) -> list[Block]:
        """All connections merged: groups of equal destinations, then of equal sources."""
        found: defaultdict[tuple[int, Talk], int] = defaultdict(int)
        for at in range(len(self.groups.all)):
            for talk, groups in self.groups.blocks(at).items():
                if wanted := self.seen(at, groups):
                    found[wanted, talk] |= 1 << at
        areas: defaultdict[tuple[int, int, tuple[int, ...]], int] = defaultdict(int)
        for (dst, (families, area)), src in found.items():
            key = (src, dst, families)
            areas[key] = self.behaviour.areas.join(areas[key], area)
        made = (
            Block(*key[:2], (key[2], area), self._count(*key[:2])) for key, area in areas.items()
        )
        return sorted((b for b in made if b.count), key=_block_order)

    def _count(self, src: int, dst: int) -> int:
        """The pairs of a block, without those that can never meet: for example an end and itself."""
        return sum((dst & self.groups.reached(at)).bit_count() for at in members(src))

    # Words.

    @property
    def words(self) -> Words:
        """The names of sets of columns; made on first use."""
        if self._words is None:
            self._words = Words(self.space, selectors_of((self.policies,)))
        return self._words

    def line(self, block: Block) -> ListedLine:
        """A block in words."""
        families, area = block.talk
        shared = self._shared(block)
        scope = (
            union(self.space.of_family[f] for f in families)
            if len(families) == 1 and shared != families
            else -1
        )
        src, dst = (self._side(groups, scope) for groups in (block.src, block.dst))
        among = tuple(family for family in families if family in shared)
        return ListedLine(src, dst, self.services(families, area), among, block.count)

    def _shared(self, block: Block) -> tuple[int, ...]:
        """The families in which some source and some destination of a block could talk."""
        mine, theirs = (
            {f for at in members(groups) for f in self.groups.all[at].families}
            for groups in (block.src, block.dst)
        )
        return tuple(sorted(mine & theirs))

    def _side(self, groups: int, scope: int) -> str:
        """Groups in words. A pod that may be anywhere is described by its place in these groups."""
        scope |= ~self.space.outside
        every = members(groups)
        partial = [at for at in every if self.groups.is_partial(at, groups)]
        whole = [self.groups.all[at] for at in every if at not in partial]
        parts = [self._part(at) for at in partial]
        if all(group.is_whole for group in whole):
            columns = union(group.columns for group in whole) & scope
            return ", ".join([self.words.side(columns), *parts] if columns else parts)
        names = sorted({name for group in whole for name in group.names})
        outside = union(group.columns for group in whole if group.kind == OUTSIDE) & scope
        parts.insert(0, listed(names, "pods and nodes"))
        return ", ".join([*parts, self.words.side(outside)] if outside else parts)

    def _part(self, at: int) -> str:
        """The ends of a group by name, with the addresses that give them this behaviour."""
        group = self.groups.all[at]
        where = list(self._networks(group.columns))
        return f"{listed(list(group.names), 'pods')} at {listed(where, 'networks')}"

    def name(self, at: int) -> str:
        """A group in words."""
        return self._side(1 << at, -1)

    def group(self, at: int) -> EndGroup:
        """A group for readers: its name and its members."""
        group = self.groups.all[at]
        names = group.names if group.kind != OUTSIDE else tuple(self._networks(group.columns))
        is_focus = bool(self.focus) and bool(self.wanted >> at & 1)
        return EndGroup(at, group.kind, self.name(at), names, group.families, is_focus)

    def _networks(self, columns: int) -> Iterator[str]:
        for family in FAMILIES:
            mine = columns & self.space.of_family[family]
            if mine:
                yield from networks(self.space, mine, family)

    def services(self, families: tuple[int, ...], area: int) -> str:
        """An area in words."""
        parts = []
        for lo, hi, keys in self.behaviour.areas.known[area]:
            shown = describe_services(filled(keys, families))
            limited = (lo, hi) != (0, LAST_PORT)
            parts.append(f"{shown} from source ports {lo}-{hi}" if limited else shown)
        return "; ".join(parts)

    def _ranges(self, families: tuple[int, ...], area: int) -> Iterable[ServiceRange]:
        for lo, hi, keys in self.behaviour.areas.known[area]:
            sources = None if (lo, hi) == (0, LAST_PORT) else (lo, hi)
            yield from service_ranges(filled(keys, families), sources)

    # Confirmation.

    def replay(self, connections: Iterable[ListedConnection]) -> int:
        """Confirm one flow of each connection by the reference semantics; returns their number."""
        examples = Examples(self.space)
        count = 0
        for each in connections:
            if count == MOST_REPLAYS:
                break
            scope = union(self.space.of_family[family] for family in each.families)
            src, dst = (self.groups.all[at].columns & scope for at in (each.src, each.dst))
            keys, sources = _services_of(each)
            example = examples.find(src, dst, keys)
            if example is None:
                raise InternalError("a connection of the listing without a flow")
            flow, _ = examples.flows(example, sources)
            if verdict(self.policies, flow).action.is_deny:
                raise InternalError(f"the reference semantics do not confirm the flow {flow}")
            count += 1
        return count


def filled(keys: IntervalSet, families: tuple[int, ...]) -> IntervalSet:
    """Services of a single family: all of them, if only the other family's ICMP is missing."""
    if len(families) == 1 and keys | OF_OTHER_FAMILY[families[0]] == ALL_SERVICES:
        return ALL_SERVICES
    return keys


def _services_of(connection: ListedConnection) -> tuple[IntervalSet, tuple[int, int] | None]:
    """The service keys of the first source ports that are listed."""
    sources = connection.ranges[0].sources
    mine = [each for each in connection.ranges if each.sources == sources]
    return union_of(mine), sources


def union_of(ranges: Iterable[ServiceRange]) -> IntervalSet:
    """The service keys of some ranges."""
    found = IntervalSet()
    for each in ranges:
        found |= keys_of(each)
    return found


def keys_of(service: ServiceRange) -> IntervalSet:
    """The service keys of a range."""
    if service.protocol == "any":
        return ALL_SERVICES
    base = Kind[service.protocol] << 16
    return IntervalSet.of([(base | service.first, base | service.last)])


def _block_order(block: Block) -> tuple[int, int, tuple[int, ...], int, int, int]:
    lowest = ((groups & -groups).bit_length() for groups in (block.src, block.dst))
    return (*lowest, block.talk[0], block.src, block.dst, block.talk[1])  # type: ignore[return-value]
