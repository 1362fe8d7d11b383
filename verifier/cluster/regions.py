# SPDX-License-Identifier: Apache-2.0
"""Regions: cells merged into few lines for a reader, each with a flow that can really happen."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from policyc.ir.bits import bits_of, first, members
from policyc.ir.errors import InternalError
from policyc.ir.intervals import IntervalSet
from policyc.ir.results.diff import DifferenceKind
from policyc.ir.services import (
    NEIGHBOUR_DISCOVERY,
    Kind,
    Service,
    kind_span,
)
from policyc.ir.universe import End, Endpoint, Flow, Node, end_address, end_name
from policyc.verifier.cluster.connections import Cell
from policyc.verifier.cluster.outcomes import Segment
from policyc.verifier.cluster.space import LINK_NETWORKS, Space

_DISCOVERY = IntervalSet.of(
    (Kind.ICMPV6 << 16 | t << 8, Kind.ICMPV6 << 16 | t << 8 | 0xFF) for t in NEIGHBOUR_DISCOVERY
)
_NOT_OF = {4: kind_span(Kind.ICMPV6), 6: kind_span(Kind.ICMP)}
_USUAL_KINDS = (Kind.TCP, Kind.UDP, Kind.SCTP, Kind.ICMP, Kind.ICMPV6)
_USUAL_PORT = 80
Sources = tuple[int, int] | None
Sides = tuple[End, End]
"""An end before a change, and after it."""
_FEW = 3
Block = tuple[int, int, IntervalSet, Sources]


@dataclass(frozen=True, slots=True)
class Region:
    """Flows from any of `src` to any of `dst` (sets of columns, families apart) for `services`.

    `sources` are the source ports where rules read them.
    """

    kind: DifferenceKind
    src: int
    dst: int
    services: IntervalSet
    sources: Sources


class Examples:
    """Finds, in sets of columns, a flow that exists: no end talks to itself, families agree."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._link = bits_of(
            [at for at, c in enumerate(space.columns) if c.family == 6 and self._is_link(c.run)]
        )

    def _is_link(self, run: int) -> bool:
        lo, hi = self.space.networks_of(run, 6)
        return any(
            int(n.network_address) <= lo and hi <= int(n.broadcast_address) for n in LINK_NETWORKS
        )

    def find(self, src: int, dst: int, services: IntervalSet) -> tuple[int, int, int] | None:
        """(source column, destination column, service key), or None if no such flow exists."""
        for family, columns in self.space.of_family.items():
            mine, theirs = src & columns, dst & columns
            keys = services - _NOT_OF[family]
            if not mine or not theirs or not keys:
                continue
            found = self._in_family(mine, theirs, keys)
            if found is not None:
                return found
        return None

    def _in_family(self, src: int, dst: int, keys: IntervalSet) -> tuple[int, int, int] | None:
        plain = keys - _DISCOVERY
        if plain:
            ends = self._distinct(src, dst)
            return None if ends is None else (*ends, usual(plain))
        ends = self._distinct(src, dst & ~self._link)
        return None if ends is None else (*ends, usual(keys))

    def _distinct(self, src: int, dst: int) -> tuple[int, int] | None:
        """A source and a destination that are different ends; pods before addresses."""
        for one in self._pods_first(src):
            for other in self._pods_first(dst):
                if self._apart(one, other) is not None:
                    return one, other
        return None

    def _pods_first(self, columns: int) -> Iterator[int]:
        for rest in (columns & ~self.space.outside, columns & self.space.outside):
            while rest:
                yield first(rest)
                rest &= rest - 1

    def flows(self, example: tuple[int, int, int], sources: Sources) -> tuple[Flow, Flow]:
        """The example as a flow of concrete ends, before and after."""
        one, other, key = example
        family = self.space.columns[one].family
        service = Service.from_key(key)
        has_port = service.kind in (Kind.TCP, Kind.UDP, Kind.SCTP) and sources is not None
        port = None if not has_port or sources is None else max(sources[0], min(sources[1], 40000))
        ends = self._apart(one, other)
        if ends is None:
            raise InternalError("an example whose ends are one")
        before, after = (
            Flow(ends[0][side], ends[1][side], service, family, port) for side in (0, 1)
        )
        return before, after

    def _apart(self, one: int, other: int) -> tuple[Sides, Sides] | None:
        """An end of each column, before and after, that can exist at once."""
        family = self.space.columns[one].family
        for mine in self._some(one):
            for theirs in self._some(other):
                if not any(_are_one(a, b, family) for a, b in zip(mine, theirs, strict=True)):
                    return mine, theirs
        return None

    def _some(self, column: int) -> Iterator[Sides]:
        """A few ends of a column: of a workload two replicas, if there is room for two."""
        found = self.space.columns[column]
        if found.owner < 0:
            assert found.example is not None
            yield found.example, found.example
            return
        for member in self.space.classes[found.owner].members[:_FEW]:
            site = self.space.sites[member]
            yield site.before, site.after
            if site.twin is not None and site.twin_after is not None:
                yield site.twin, site.twin_after


def _are_one(one: End, other: End, family: int) -> bool:
    """Whether both are the same pod or node, or would need the same address."""
    if end_address(one, family) == end_address(other, family):
        return True
    match one, other:
        case Endpoint(), Endpoint():
            is_known = not (one.is_template or other.is_template)
            return is_known and one.qualified_name == other.qualified_name
        case Node(), Node():
            return one.name == other.name
        case _:
            return False


def usual(keys: IntervalSet) -> int:
    """A well-known key: port 80 if it is among them, else the least of the usual kinds."""
    for kind in _USUAL_KINDS:
        among = keys & kind_span(kind)
        if among:
            preferred = kind << 16 | _USUAL_PORT
            if kind in (Kind.TCP, Kind.UDP, Kind.SCTP) and preferred in among:
                return preferred
            lo, hi = among.spans[0]
            return lo + 1 if lo == kind << 16 and hi > lo and kind < Kind.ICMP else lo
    return keys.spans[0][0]


def regions(cells: Iterable[Cell], space: Space) -> list[Region]:
    """Cells of one kind merged; a cell without a possible flow is left out."""
    groups: defaultdict[tuple[object, ...], list[Cell]] = defaultdict(list)
    examples = Examples(space)
    for cell in cells:
        if examples.find(cell.src, cell.dst, cell.segment.keys) is not None:
            groups[cell.kind, cell.effects].append(cell)
    found = [
        region
        for (kind, _), alike in groups.items()
        for region in _merged(kind, alike, space)  # type: ignore[arg-type]
    ]
    order = list(DifferenceKind)
    return sorted(found, key=lambda r: (order.index(r.kind), r.src, r.dst))


def _merged(kind: DifferenceKind, cells: list[Cell], space: Space) -> list[Region]:
    spans: defaultdict[tuple[int, int, Sources], list[tuple[int, int]]] = defaultdict(list)
    for cell in cells:
        src, dst = _closed(cell.src, cell.dst, space)
        spans[src, dst, _sources(cell.segment)].append((cell.segment.lo, cell.segment.hi))
    blocks = [
        (src, dst, IntervalSet.of(pairs), sources) for (src, dst, sources), pairs in spans.items()
    ]
    while True:
        merged = _by_services(_by_destination(_by_source(blocks)))
        if len(merged) == len(blocks):
            break
        blocks = merged
    return [Region(kind, *block) for block in _by_family(merged, space)]


def _by_family(blocks: list[Block], space: Space) -> list[Block]:
    """The same ends in both families, merged: flows never cross families."""
    found: dict[tuple[object, ...], list[Block]] = {}
    for block in blocks:
        key = (_ends(block[0], space), _ends(block[1], space), block[2], block[3])
        mine = found.setdefault(key, [])
        for at, other in enumerate(mine):
            if not _families(other[0], space) & _families(block[0], space):
                mine[at] = (other[0] | block[0], other[1] | block[1], block[2], block[3])
                break
        else:
            mine.append(block)
    return [block for mine in found.values() for block in mine]


def _ends(columns: int, space: Space) -> object:
    """The ends of some columns, whatever their addresses."""
    names = frozenset(
        end_name(space.sites[member].after)
        for owner in owners(space, columns)
        for member in space.classes[owner].members
    )
    return names, bool(columns & space.outside)


def _families(columns: int, space: Space) -> frozenset[int]:
    return frozenset(f for f, mine in space.of_family.items() if columns & mine)


def _closed(src: int, dst: int, space: Space) -> tuple[int, int]:
    """Both ends in the families that both have."""
    both = 0
    for columns in space.of_family.values():
        if src & columns and dst & columns:
            both |= columns
    return src & both, dst & both


def _sources(segment: Segment) -> Sources:
    if (segment.source_lo, segment.source_hi) == (0, 65535) or not segment.has_source:
        return None
    return segment.source_lo, segment.source_hi


def _by_source(blocks: list[Block]) -> list[Block]:
    """Merge blocks that differ only in their sources."""
    found: dict[tuple[int, IntervalSet, Sources], int] = {}
    for src, dst, services, sources in blocks:
        key = (dst, services, sources)
        found[key] = found.get(key, 0) | src
    return [(src, dst, services, sources) for (dst, services, sources), src in found.items()]


def _by_destination(blocks: list[Block]) -> list[Block]:
    """Merge blocks that differ only in their destinations."""
    found: dict[tuple[int, IntervalSet, Sources], int] = {}
    for src, dst, services, sources in blocks:
        key = (src, services, sources)
        found[key] = found.get(key, 0) | dst
    return [(src, dst, services, sources) for (src, services, sources), dst in found.items()]


def _by_services(blocks: list[Block]) -> list[Block]:
    found: dict[tuple[int, int, Sources], IntervalSet] = {}
    for src, dst, services, sources in blocks:
        key = (src, dst, sources)
        found[key] = found.get(key, IntervalSet()) | services
    return [(src, dst, services, sources) for (src, dst, sources), services in found.items()]


def owners(space: Space, columns: int) -> list[int]:
    """The classes that some columns belong to."""
    found = dict.fromkeys(
        space.columns[column].owner for column in members(columns & ~space.outside)
    )
    return list(found)
