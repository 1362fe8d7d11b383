# SPDX-License-Identifier: Apache-2.0
"""The ends of a matrix: what the regions of a diff distinguish, so that ends never overlap.

The groups of a cluster and the external addresses are put together if they are in the same regions.
Regions of the symbolic universe have no such parts: each end is one in words, and two may overlap.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_network,
    summarize_address_range,
)
from itertools import pairwise

from policyc.ir.results.diff import Difference, DiffResult
from policyc.ir.results.regions import EndGroups

NAMED = 2
"""The number of members in the name of an end that no region names."""
MANY_NETWORKS = 8
"""The external end with the most networks, and more than these, is called `other`."""
CLUSTER, EXTERNAL, WORDS, REST = "cluster", "external", "words", "rest"
"""The kinds of ends: of the cluster, external addresses, any in words, and those of no region."""
REST_NAME = "every other end"


@dataclass(frozen=True, slots=True)
class MatrixEnd:
    """A row and column of the matrix, with its members by name or CIDR."""

    name: str
    kind: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends, and for each region the numbers of its sources and of its destinations.

    `is_partition`: no two ends overlap, and together they are all ends of the universe.
    """

    all: tuple[MatrixEnd, ...]
    of_region: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    is_partition: bool


@dataclass(frozen=True, slots=True)
class _Role:
    """The regions that an end is a source of, and those that it is a destination of."""

    kind: str
    sources: frozenset[int]
    destinations: frozenset[int]


def ends_of(diff: DiffResult) -> Ends:
    """The ends of the regions that are shown, certain and possible ones."""
    regions = (*diff.differences, *diff.possible)
    known = [pair for pair in map(_groups, regions) if pair is not None]
    if len(known) < len(regions) or diff.universe.kind == "symbolic":
        return _in_words(regions)
    members = _members(known, diff.groups)
    names = _names(regions, members)
    order = sorted(members, key=lambda each: (each.kind == REST, each.kind, names[each]))
    ends = tuple(
        MatrixEnd(names[each], each.kind, tuple(dict.fromkeys(members[each]))) for each in order
    )
    numbers = range(len(regions))
    return Ends(
        ends,
        tuple(
            (
                tuple(n for n, each in enumerate(order) if at in each.sources),
                tuple(n for n, each in enumerate(order) if at in each.destinations),
            )
            for at in numbers
        ),
        True,
    )


def _groups(region: Difference) -> tuple[EndGroups, EndGroups] | None:
    parts = region.parts
    if (
        parts is None
        or not isinstance(parts.src, EndGroups)
        or not isinstance(parts.dst, EndGroups)
    ):
        return None
    return parts.src, parts.dst


def _in_words(regions: Sequence[Difference]) -> Ends:
    names = sorted({name for each in regions for name in (each.src, each.dst)})
    number = {name: at for at, name in enumerate(names)}
    of_region = tuple(((number[each.src],), (number[each.dst],)) for each in regions)
    return Ends(tuple(MatrixEnd(name, WORDS) for name in names), of_region, False)


def _members(
    known: Sequence[tuple[EndGroups, EndGroups]], groups: Sequence[tuple[str, ...]]
) -> dict[_Role, list[str]]:
    """The members of each end. What is in no region is one end, with the groups that are known."""
    found: defaultdict[_Role, list[str]] = defaultdict(list)
    found[_role(CLUSTER, (), ())] = []
    of_group = tuple(_regions_of_groups(known, side, len(groups)) for side in (0, 1))
    for names, sources, destinations in zip(groups, *of_group, strict=True):
        found[_role(CLUSTER, sources, destinations)] += names
    for family in (IPv4Address, IPv6Address):
        for role, cidrs in _external(known, family):
            found[role] += cidrs
    return found


def _role(kind: str, sources: Iterable[int], destinations: Iterable[int]) -> _Role:
    src, dst = frozenset(sources), frozenset(destinations)
    return _Role(kind if src or dst else REST, src, dst)


def _regions_of_groups(
    known: Sequence[tuple[EndGroups, EndGroups]], side: int, n_groups: int
) -> list[list[int]]:
    """For each group the regions that have it on one side."""
    found: list[list[int]] = [[] for _ in range(n_groups)]
    for at, pair in enumerate(known):
        for number in pair[side].groups:
            found[number].append(at)
    return found


def _external(
    known: Sequence[tuple[EndGroups, EndGroups]], family: type[IPv4Address] | type[IPv6Address]
) -> Iterator[tuple[_Role, list[str]]]:
    """The external addresses of a family, cut where a network of a region begins or ends."""
    spans = [[_spans(ends.networks, family) for ends in pair] for pair in known]
    cuts = sorted({cut for pair in spans for side in pair for lo, hi in side for cut in (lo, hi)})
    of_piece: list[list[list[int]]] = [[[] for _ in cuts] for _ in (0, 1)]  # by side, by piece
    for at, pair in enumerate(spans):
        for side in (0, 1):
            for lo, hi in pair[side]:
                for piece in range(bisect_left(cuts, lo), bisect_left(cuts, hi)):
                    of_piece[side][piece].append(at)
    pieces: defaultdict[_Role, list[tuple[int, int]]] = defaultdict(list)
    for piece, (lo, hi) in enumerate(pairwise(cuts)):
        role = _role(EXTERNAL, of_piece[0][piece], of_piece[1][piece])
        if role.kind != REST:
            pieces[role].append((lo, hi))
    for role, found in pieces.items():
        yield role, [str(net) for lo, hi in _merged(found) for net in _networks(lo, hi, family)]


def _spans(
    networks: Iterable[str], family: type[IPv4Address] | type[IPv6Address]
) -> list[tuple[int, int]]:
    """The networks of one family as numbers; the second is the number after the last address."""
    parsed = (ip_network(each) for each in networks)
    mine = (each for each in parsed if isinstance(each.network_address, family))
    return [(int(each[0]), int(each[-1]) + 1) for each in mine]


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for lo, hi in spans:
        if found and found[-1][1] == lo:
            found[-1] = (found[-1][0], hi)
        else:
            found.append((lo, hi))
    return found


def _networks(
    lo: int, hi: int, family: type[IPv4Address] | type[IPv6Address]
) -> Iterator[IPv4Network | IPv6Network]:
    return summarize_address_range(family(lo), family(hi - 1))


def _names(
    regions: Sequence[Difference], members: Mapping[_Role, Sequence[str]]
) -> dict[_Role, str]:
    """The words of a region that has exactly this end on a side, else the first members."""
    words: dict[frozenset[_Role], str] = {}
    for at, region in enumerate(regions):
        words.setdefault(frozenset(each for each in members if at in each.sources), region.src)
        words.setdefault(frozenset(each for each in members if at in each.destinations), region.dst)
    external = [each for each in members if each.kind == EXTERNAL]
    largest = max(external, key=lambda each: len(members[each]), default=None)
    return {
        each: words.get(frozenset({each})) or _named(members[each], each is largest)
        if each.kind != REST
        else REST_NAME
        for each in members
    }


def _named(members: Sequence[str], is_largest: bool) -> str:
    """By the first members. The external end of the most networks is what is left between others."""
    known = list(dict.fromkeys(members))
    more = len(known) - NAMED
    if is_largest and len(known) > MANY_NETWORKS:
        return f"other external addresses ({len(known)} networks)"
    shown = ", ".join(known[:NAMED])
    return f"{shown} and {more} more" if more > 0 else shown
