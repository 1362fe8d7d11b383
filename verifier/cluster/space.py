# SPDX-License-Identifier: Apache-2.0
"""The peers that a flow can have, numbered: classes of ends under each address, and addresses.

A *class* is a set of sites that no rule distinguishes: the same record in the same address runs. A *run*
is a range of addresses between two neighbouring borders of the blocks that rules name. A *column* is a
class in one family, or the addresses of a run that no end holds. Columns are ordered by run, so a block
is a few ranges of columns.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Network
from typing import assert_never

from policyc.ir.bits import bits_of, span, union
from policyc.ir.peers import (
    AddressPeer,
    AnyPeer,
    EndpointPeer,
    Leaf,
    Network,
    NodePeer,
    Peer,
    Where,
)
from policyc.ir.policy import NamedPort
from policyc.ir.selectors import AllOf, Not, OneOf
from policyc.ir.universe import FAMILIES, Address, Endpoint, HostInterface, Node, Subject, end_name
from policyc.verifier.cluster.index import Index
from policyc.verifier.cluster.reads import Reads
from policyc.verifier.cluster.sites import Site, run_of, unheld

LINK_NETWORKS = (IPv6Network("fe80::/10"), IPv6Network("ff02::/16"))
"""The destinations of neighbour discovery (A26): borders of their own."""
_LAST = {4: (1 << 32) - 1, 6: (1 << 128) - 1}


@dataclass(frozen=True, slots=True)
class EndClass:
    """Sites that no rule distinguishes, by index into `Space.sites`; `end` is one of them."""

    before: Subject
    after: Subject
    members: tuple[int, ...]
    families: frozenset[int]
    is_single: bool
    """The class has one member: a flow from the class to itself would be from an end to itself."""


@dataclass(frozen=True, slots=True)
class Column:
    """One peer: a class (-1: none), under addresses of one run; `example` is one of them."""

    family: int
    run: int
    owner: int
    example: Address | None = None


@dataclass
class Space:
    """Classes and columns of a cluster, for everything that some policy sets read.

    Sites whose `end_name` is among `apart` are in a class of their own. `outside_runs` are the runs with
    addresses that no end holds, ascending.
    """

    sites: list[Site]
    reads: Reads
    apart: frozenset[str] = frozenset()
    runs: dict[int, tuple[int, ...]] = field(init=False)
    classes: list[EndClass] = field(init=False)
    columns: list[Column] = field(init=False)

    def __post_init__(self) -> None:
        self.runs = {family: _runs(self.reads.blocks, family) for family in FAMILIES}
        self.classes = self._classes()
        self.columns = self._columns()
        self.all = (1 << len(self.columns)) - 1
        self.columns_of: list[list[int]] = [[] for _ in self.classes]
        for at, column in enumerate(self.columns):
            if column.owner >= 0:
                self.columns_of[column.owner].append(at)
        self.of_family = {
            family: bits_of([at for at, c in enumerate(self.columns) if c.family == family])
            for family in FAMILIES
        }
        self.outside = bits_of([at for at, c in enumerate(self.columns) if c.owner < 0])
        self.outside_runs = {
            family: [c.run for c in self.columns if c.owner < 0 and c.family == family]
            for family in FAMILIES
        }
        is_changed = any(site.before is not site.after for site in self.sites)
        self.before = View(self, [c.before for c in self.classes])
        self.after = View(self, [c.after for c in self.classes]) if is_changed else self.before

    def _classes(self) -> list[EndClass]:
        groups: dict[object, list[int]] = {}
        records = _Records(self.reads)
        for at, site in enumerate(self.sites):
            runs = tuple(
                (a.version, run_of(self.runs[a.version], a)) for a in site.before.addresses
            )
            key: tuple[object, ...] = (records.key(site.before), runs)
            if site.before is not site.after:
                moved = tuple(
                    (a.version, run_of(self.runs[a.version], a)) for a in site.after.addresses
                )
                key = (*key, records.key(site.after), moved)
            if self.apart:
                key = (*key, end_name(site.before) in self.apart)
            groups.setdefault(key, []).append(at)
        return [self._class(tuple(members)) for members in groups.values()]

    def _class(self, members: tuple[int, ...]) -> EndClass:
        site = self.sites[members[0]]
        both = {a.version for a in site.before.addresses} & {
            a.version for a in site.after.addresses
        }
        single = len(members) == 1 and site.twin is None
        return EndClass(site.before, site.after, members, frozenset(both), single)

    def _columns(self) -> list[Column]:
        found: list[Column] = []
        for family in FAMILIES:
            held = self._held(family)
            found += self._outside(family, held)
            for index, each in enumerate(self.classes):
                address = each.before.address(family)
                if family in each.families and address is not None:
                    found.append(Column(family, run_of(self.runs[family], address), index))
        return sorted(found, key=lambda c: (c.family, c.run, c.owner))

    def _held(self, family: int) -> set[int]:
        """The held addresses; an address that is one of several for a pod is not held yet."""
        held: set[int] = set()
        for ends in ([s.before for s in self.sites], [s.after for s in self.sites]):
            places: dict[object, set[int]] = {}
            for end in ends:
                name = (
                    end.qualified_name if isinstance(end, Endpoint) else (end.name, end.addresses)
                )
                mine = places.setdefault(name, set())
                mine |= {int(each) for each in end.addresses if each.version == family}
            held = held.union(*(mine for mine in places.values() if len(mine) == 1))
        return held

    def _outside(self, family: int, held: set[int]) -> Iterable[Column]:
        starts = self.runs[family]
        for run, lo in enumerate(starts):
            hi = starts[run + 1] - 1 if run + 1 < len(starts) else _LAST[family]
            free = unheld(lo, hi, family, held, 1)
            if free:
                yield Column(family, run, -1, free[0])

    def networks_of(self, run: int, family: int) -> tuple[int, int]:
        """(first, last) address of a run."""
        starts = self.runs[family]
        return starts[run], starts[run + 1] - 1 if run + 1 < len(starts) else _LAST[family]


class View:
    """The columns that leaves match, and the classes that selectors select, as sets."""

    def __init__(self, space: Space, ends: list[Subject]) -> None:
        self.space = space
        self.ends = ends
        pods = {at: end for at, end in enumerate(ends) if isinstance(end, Endpoint)}
        nodes = {at: end for at, end in enumerate(ends) if isinstance(end, Node)}
        self.pods, self.nodes = Index(pods), Index(nodes)
        columns = [(at, c.owner) for at, c in enumerate(space.columns) if c.owner >= 0]
        self.pod_columns = Index({at: pods[owner] for at, owner in columns if owner in pods})
        self.node_columns = Index({at: nodes[owner] for at, owner in columns if owner in nodes})
        self._order = self._by_run()
        self._leaves: dict[Leaf, int] = {}
        self._on_node: dict[str, int] = {}
        for at, owner in columns:
            if owner in nodes and nodes[owner].name:
                name = nodes[owner].name
                self._on_node[name] = self._on_node.get(name, 0) | 1 << at
        self._declaring: dict[NamedPort, dict[int, int]] = {}

    def _by_run(self) -> dict[int, list[tuple[int, int]]]:
        """(run, column) of each family, ascending: the runs of a column's addresses in this view."""
        found: dict[int, list[tuple[int, int]]] = {family: [] for family in FAMILIES}
        for at, column in enumerate(self.space.columns):
            run = column.run
            if column.owner >= 0:
                address = self.ends[column.owner].address(column.family)
                if address is None:
                    continue
                run = run_of(self.space.runs[column.family], address)
            found[column.family].append((run, at))
        for family in FAMILIES:
            found[family].sort()
        return found

    def peer(self, peer: Peer, own_node: str) -> int:
        """The columns that a peer matches, for a subject on this node (empty: unknown)."""
        match peer:
            case AllOf(parts):
                found = self.space.all
                for part in parts:
                    found &= self.peer(part, own_node)
                return found
            case OneOf(parts):
                return union(self.peer(part, own_node) for part in parts)
            case Not(part):
                return self.space.all & ~self.peer(part, own_node)
            case NodePeer(condition, where) if where is not Where.ANYWHERE:
                local = self._on_node.get(own_node, 0) if own_node else 0
                holds = self.node_columns.condition(condition)
                return holds & (local if where is Where.LOCAL else ~local)
            case _:
                found_leaf = self._leaves.get(peer)
                if found_leaf is None:
                    found_leaf = self._leaf(peer)
                    self._leaves[peer] = found_leaf
                return found_leaf

    def _leaf(self, leaf: Leaf) -> int:
        match leaf:
            case AnyPeer():
                return self.space.all
            case EndpointPeer(selector):
                return self.pod_columns.selected(selector)
            case AddressPeer(network, excepts):
                holes = union(self._network(hole) for hole in excepts)
                return self._network(network) & ~holes
            case NodePeer(condition):
                return self.node_columns.condition(condition)
            case _:
                assert_never(leaf)

    def _network(self, network: Network) -> int:
        """The columns whose addresses are inside a CIDR: its borders are borders of runs."""
        starts, order = self.space.runs[network.version], self._order[network.version]
        lo = bisect_left(starts, int(network.network_address))
        hi = bisect_left(starts, int(network.broadcast_address) + 1)
        at, end = bisect_left(order, (lo, -1)), bisect_left(order, (hi, -1))
        if at == end:
            return 0
        if order[end - 1][1] - order[at][1] == end - 1 - at and self is self.space.before:
            return span(order[at][1], order[end - 1][1] + 1)
        return bits_of([column for _, column in order[at:end]])

    def declaring(self, port: NamedPort) -> Mapping[int, int]:
        """Port number -> the pod columns that declare it under this name and protocol (A19)."""
        if port not in self._declaring:
            found: dict[int, list[int]] = {}
            for at, column in enumerate(self.space.columns):
                end = self.ends[column.owner] if column.owner >= 0 else None
                if isinstance(end, Endpoint):
                    for number in end.named_ports(port.name, port.protocol):
                        found.setdefault(number, []).append(at)
            self._declaring[port] = {number: bits_of(ats) for number, ats in found.items()}
        return self._declaring[port]


class _Records:
    """Keys of records: ends with equal keys are equal in everything that rules read."""

    def __init__(self, reads: Reads) -> None:
        self._nodes = reads.nodes
        self._locality = reads.locality
        self._labels: dict[int, tuple[Mapping[str, str], tuple[tuple[str, str], ...]]] = {}

    def key(self, end: Subject) -> object:
        if isinstance(end, Node):
            return "node", end.name, tuple(sorted(end.labels.items())), _host(end.host)
        node: object = ""
        if self._nodes:
            labels = end.its_node.labels if end.its_node is not None else {}
            node = end.node, tuple(sorted(labels.items()))
        return (
            end.namespace,
            tuple(sorted(end.labels.items())),
            self._sorted(end.namespace_labels),
            end.ports,
            end.service_account,
            tuple(sorted(end.service_account_labels.items())),
            node,
        )

    def _sorted(self, labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """A namespace's labels are shared by its pods: sorted once each."""
        known = self._labels.get(id(labels))
        if known is None:
            known = labels, tuple(sorted(labels.items()))
            self._labels[id(labels)] = known
        return known[1]


def _host(host: HostInterface | None) -> object:
    if host is None:
        return None
    return host.name, tuple(sorted(host.labels.items())), host.denies_unmatched, host.has_failsafes


def _runs(blocks: Iterable[AddressPeer], family: int) -> tuple[int, ...]:
    """The first address of each run, ascending."""
    networks = [n for b in blocks for n in (b.network, *b.excepts) if n.version == family]
    if family == 6:
        networks += LINK_NETWORKS
    starts = {0}
    for network in networks:
        starts.add(int(network.network_address))
        starts.add(int(network.broadcast_address) + 1)
    starts.discard(_LAST[family] + 1)
    return tuple(sorted(starts))
