# SPDX-License-Identifier: Apache-2.0
"""Sites: the ends of a cluster, as concrete as a flow needs them: one node, one address a family.

A pod with an unknown attribute (a template's address and node) becomes several sites: one of each sort
that the rules distinguish. A pod in the host's network is its node (A21).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address

from policyc.ir.atoms import address_atoms
from policyc.ir.peers import Network
from policyc.ir.semantics import as_seen
from policyc.ir.universe import FAMILIES, Address, Endpoint, Node, Subject, Universe
from policyc.verifier.cluster.reads import Reads
from policyc.verifier.symbolic.unknown_nodes import (
    Nodes,
    is_open,
    on_node,
    placements,
    sort_on,
)

MOST_SITES = 400_000
"""The limit of pods of unknown address times the sorts of addresses that rules distinguish."""


class UnknownAddressesError(Exception):
    """Too many pods could be in too many places; `--pod-cidr` or Node objects would fix their places."""

    def __init__(self, pods: int, places: int) -> None:
        super().__init__(
            f"the addresses of {pods} pods are not known, and policies tell {places} sorts of"
            " addresses apart"
        )


@dataclass(frozen=True, slots=True)
class Site:
    """An end in one possible place, before and after a change; the same object if nothing changed.

    It has at most one address of each family, the same before and after unless the cluster says
    otherwise. `twin`: another end, equal in all that rules can see: a template's second replica, before
    the change; `twin_after`: the same replica after it.
    """

    before: Subject
    after: Subject
    twin: Subject | None = None
    twin_after: Subject | None = None


def sites_of(
    before: Universe, after: Universe, reads: Reads, networks: tuple[Network, ...] = ()
) -> list[Site]:
    """The sites of the ends that are in both universes, in order of name."""
    making = _Making(before, after, reads, networks)
    if before is after:
        return [Site(one, one, twin, twin) for one, twin in making.all(before)]
    return list(_paired(making.all(before), making.all(after)))


Placed = tuple[Subject, Subject | None]
"""An end in one possible place, and its twin."""


def _paired(before: Iterable[Placed], after: Iterable[Placed]) -> Iterator[Site]:
    """Pair each end before with itself after: on the same node and address if that is possible."""
    olds, news = defaultdict[object, list[Placed]](list), defaultdict[object, list[Placed]](list)
    for found, ends in ((olds, before), (news, after)):
        for one, twin in ends:
            found[_identity(one)].append((one, twin))
    for name, mine in olds.items():
        if name in news:
            for (one, twin), (other, also) in _matched(mine, news[name]):
                both = twin is not None and also is not None
                yield Site(one, other, *((twin, also) if both else ()))


def _matched(mine: list[Placed], theirs: list[Placed]) -> Iterator[tuple[Placed, Placed]]:
    """Pair equal places; then pair the rest, the n-th with the n-th."""
    there = {_place(one): (one, twin) for one, twin in theirs}
    here = {_place(one) for one, _ in mine}
    left = [each for each in mine if _place(each[0]) not in there]
    others = [each for each in theirs if _place(each[0]) not in here]
    yield from ((each, there[_place(each[0])]) for each in mine if _place(each[0]) in there)
    for at in range(max(len(left), len(others))):
        yield (
            left[at] if at < len(left) else mine[min(at, len(mine) - 1)],
            others[at] if at < len(others) else theirs[min(at, len(theirs) - 1)],
        )


def _place(end: Subject) -> object:
    return end.node if isinstance(end, Endpoint) else "", end.addresses


def _identity(end: Subject) -> object:
    """The identity of an end across two clusters: its name, as pod or as node."""
    if isinstance(end, Endpoint):
        return "pod", end.qualified_name
    return "node", end.name, tuple(sorted({a.version for a in end.addresses}))


@dataclass
class _Making:
    before: Universe
    after: Universe
    reads: Reads
    networks: tuple[Network, ...]

    def __post_init__(self) -> None:
        self._held: dict[int, set[int]] = {family: set() for family in FAMILIES}
        self._usual: dict[int, list[tuple[Address, Address | None]]] = {}
        for universe in (self.before, self.after):
            ends: list[Subject] = [*universe.endpoints, *universe.nodes]
            for address in (address for end in ends for address in end.addresses):
                self._held[address.version].add(int(address))

    def all(self, universe: Universe) -> list[tuple[Subject, Subject | None]]:
        """(site, twin) of every end that flows can have."""
        found: list[tuple[Subject, Subject | None]] = []
        nodes: dict[object, Node] = {}
        for end in universe.endpoints:
            for placed in self._on_nodes(end, universe):
                seen = as_seen(placed)
                if isinstance(seen, Node):
                    nodes |= {_key(node): node for node in _by_address(seen)}
                elif isinstance(seen, Endpoint):
                    found += self._at_addresses(seen)
        for node in universe.nodes:
            nodes |= {_key(each): each for each in _by_address(node)}
        known = ((node, None) for node in nodes.values())
        return [*found, *known]

    def _on_nodes(self, end: Endpoint, universe: Universe) -> list[Endpoint]:
        """The end on one node of every sort that rules distinguish; itself if they distinguish none."""
        if not self.reads.nodes or not is_open(end):
            return [end]
        denying = any(n.host is not None and n.host.denies_unmatched for n in universe.nodes)
        known = Nodes(universe.nodes, denying)
        sorts = placements(end, tuple(self.reads.conditions), known)
        placed = [one for one in sorts if isinstance(one, Endpoint)]
        have = {one.node for one in placed}
        placed += [one for one in self._on_changed(end, universe) if one.node not in have]
        if self.reads.locality and not end.node:
            have = {one.node for one in placed}
            placed += [
                replace(end, node=n.name, its_node=n) for n in universe.nodes if n.name not in have
            ]
        return placed or [end]

    def _on_changed(self, end: Endpoint, universe: Universe) -> list[Endpoint]:
        """The end on one node of each pair of sorts (before, after), if the two differ.

        A pod that stays on such a node has changed, too.
        """
        if self.before is self.after or end.node:
            return []
        conditions = tuple(self.reads.conditions)
        then = {node.name: node for node in self.after.nodes}
        found: dict[object, str] = {}
        for node in self.before.nodes:
            other = then.get(node.name)
            if other is not None and other != node:
                sorts = (sort_on(end, each, conditions) for each in (node, other))
                found.setdefault(tuple(sorts), node.name)
        names = set(found.values())
        placed = (on_node(end, node) for node in universe.nodes if node.name in names)
        return [one for one in placed if isinstance(one, Endpoint)]

    def _at_addresses(self, end: Endpoint) -> Iterator[tuple[Subject, Subject | None]]:
        if end.addresses_known:
            if end.addresses:
                yield replace(end, is_template=False), None
            return
        known = {address.version for address in end.addresses}
        for family in FAMILIES:
            if family in known:
                yield replace(end, addresses=(end.address(family),), is_template=False), None  # type: ignore[arg-type]
                continue
            for address, other in self._places(family):
                site = replace(end, addresses=(address,), addresses_known=True)
                twin = None
                if other is not None and end.is_template:
                    twin = replace(site, addresses=(other,))
                yield site, twin

    def _places(self, family: int) -> list[tuple[Address, Address | None]]:
        """Two addresses of every sort that rules distinguish, where pods of a family may be."""
        if family not in self._usual:
            self._usual[family] = list(self._find_places(family))
            count = sum(not e.addresses_known for e in self.before.endpoints + self.after.endpoints)
            if count * len(self._usual[family]) > MOST_SITES:
                raise UnknownAddressesError(count, len(self._usual[family]))
        return self._usual[family]

    def _find_places(self, family: int) -> Iterator[tuple[Address, Address | None]]:
        atoms = address_atoms(tuple(self.reads.blocks), family)
        pods = [_bounds(network) for network in self.networks if network.version == family]
        best: dict[int, tuple[int, int]] = {}
        for first, last, atom in atoms.runs():
            parts = [(max(first, lo), min(last, hi)) for lo, hi in pods] or [(first, last)]
            for lo, hi in parts:
                if lo <= hi and (atom not in best or hi - lo > best[atom][1] - best[atom][0]):
                    best[atom] = (lo, hi)
        for lo, hi in best.values():
            free = unheld(lo, hi, family, self._held[family], 2)
            if free:
                yield free[0], free[1] if len(free) > 1 else None


def unheld(lo: int, hi: int, family: int, held: set[int], count: int) -> list[Address]:
    """Up to `count` unheld addresses from lo to hi, suitable for an end if there are any."""
    make = IPv4Address if family == 4 else IPv6Address
    found: dict[Address, None] = {}
    for number in _from(lo, hi, family):
        if number not in held:
            found[make(number)] = None
            if len(found) == count:
                break
    return list(found)


_EXAMPLES = {
    4: tuple(int(IPv4Address(text)) for text in ("203.0.113.10", "198.51.100.10", "10.0.0.10")),
    6: tuple(int(IPv6Address(text)) for text in ("2001:db8::10", "fd00::10")),
}
"""Addresses for documentation (RFC 5737, RFC 3849) and private ones: not mistaken for real ones."""


def _from(lo: int, hi: int, family: int) -> Iterator[int]:
    for start in _EXAMPLES[family]:
        if lo <= start <= hi:
            yield from range(start, min(hi, start + 8) + 1)
    yield from range(min(lo + 1, hi), hi + 1)
    yield lo


def _by_address(node: Node) -> Iterator[Node]:
    """The node under each of its addresses; flows that it generates itself are not separate (A22)."""
    for address in node.addresses:
        yield replace(node, addresses=(address,), speaks=False)


def _key(node: Node) -> object:
    return node.name, node.addresses


def _bounds(network: Network) -> tuple[int, int]:
    return int(network.network_address), int(network.broadcast_address)


def run_of(starts: Sequence[int], address: Address) -> int:
    """The index of the run that an address is in."""
    return bisect_right(starts, int(address)) - 1
