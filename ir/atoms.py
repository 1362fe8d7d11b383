# SPDX-License-Identifier: Apache-2.0
"""Atoms: endpoints and addresses partitioned so that no rule can tell two members apart.

Takes a Vocabulary and a Universe; gives *rows* (endpoint classes as subjects), *columns* (endpoint
classes as peers in one family, and address atoms), and the classifier that places any endpoint.

An endpoint class is the pair of its row and its columns: equal in every selector used, in the
numbers of every named port used, and in the address atom of each address. No rule reads the
subject's own address yet, so a row has no address part.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import AddressPeer, EndpointSelector, Network
from policyc.ir.semantics import selects
from policyc.ir.universe import FAMILIES, Address, Endpoint, Universe
from policyc.ir.vocabulary import Vocabulary

ADDRESS_BITS = {4: 32, 6: 128}
NamedNumbers = tuple[tuple[int, frozenset[int]], ...]
"""(index of a named port, its numbers) for those the endpoint declares, ascending."""


@dataclass(frozen=True, slots=True)
class Row:
    """An endpoint class as subject: the subject selectors that hold, the ingress named ports."""

    bits: int
    named: NamedNumbers = ()


@dataclass(frozen=True, slots=True)
class EndpointColumn:
    """An endpoint class as peer, in one family: peer selectors, egress named ports, address atom."""

    family: int
    atom: int
    bits: int
    named: NamedNumbers = ()


@dataclass(frozen=True, slots=True)
class AddressColumn:
    """An address atom that no endpoint holds."""

    family: int
    atom: int


Column = EndpointColumn | AddressColumn


@dataclass(frozen=True)
class AddressAtoms:
    """The addresses of one family, partitioned by the blocks they are in.

    `starts[i]` is the first address of run i (ascending, `starts[0]` is 0), `atoms[i]` the atom of the
    run, `blocks[a]` the blocks (a mask over Vocabulary.blocks) that atom a is in.
    """

    family: int
    starts: tuple[int, ...]
    atoms: tuple[int, ...]
    blocks: tuple[int, ...]

    def atom_of(self, address: int) -> int:
        """The atom of an address given as a number."""
        return self.atoms[bisect_right(self.starts, address) - 1]

    def runs(self) -> Iterable[tuple[int, int, int]]:
        """(first, last, atom) of each run, ascending."""
        ends = (*(start - 1 for start in self.starts[1:]), (1 << ADDRESS_BITS[self.family]) - 1)
        return zip(self.starts, ends, self.atoms, strict=True)


def address_atoms(blocks: tuple[AddressPeer, ...], family: int) -> AddressAtoms:
    """Partition a family's addresses by the blocks (CIDR minus excepts) they are in."""
    mine = [(i, b) for i, b in enumerate(blocks) if b.network.version == family]
    toggles: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for index, block in mine:
        for first, last in _runs_of(block):
            toggles[first].append((index, 1))
            toggles[last + 1].append((index, -1))
    starts, members, inside = [0], [0], 0
    limit = 1 << ADDRESS_BITS[family]
    for at in sorted(toggles):
        for index, step in toggles[at]:
            inside += step << index
        if at == 0:
            members[0] = inside
        elif at < limit and inside != members[-1]:
            starts.append(at)
            members.append(inside)
    numbers: dict[int, int] = {}
    atoms = tuple(numbers.setdefault(member, len(numbers)) for member in members)
    return AddressAtoms(family, tuple(starts), atoms, tuple(numbers))


def _runs_of(block: AddressPeer) -> list[tuple[int, int]]:
    """The block as address runs: its network minus its excepts."""
    holes = IntervalSet.of(_bounds(hole) for hole in block.excepts)
    return list(IntervalSet.of([_bounds(block.network)]) - holes)


def _bounds(network: Network) -> tuple[int, int]:
    return int(network.network_address), int(network.broadcast_address)


@dataclass(frozen=True)
class Classifier:
    """Places any endpoint record: its row, and its column per family."""

    vocabulary: Vocabulary
    addresses: Mapping[int, AddressAtoms]

    @cached_property
    def _by_namespace(self) -> dict[str | None, list[tuple[int, EndpointSelector]]]:
        groups: dict[str | None, list[tuple[int, EndpointSelector]]] = {}
        for bit, selector in enumerate(self.vocabulary.selectors):
            groups.setdefault(selector.namespace, []).append((bit, selector))
        return groups

    def bits(self, endpoint: Endpoint) -> int:
        """The selectors that select the endpoint, as a mask."""
        found = 0
        for key in (endpoint.namespace, None):
            for bit, selector in self._by_namespace.get(key, ()):
                if selects(selector, endpoint):
                    found |= 1 << bit
        return found

    def named(self, endpoint: Endpoint, mask: int) -> NamedNumbers:
        """The numbers of the named ports in `mask` that the endpoint declares."""
        found = []
        for index, port in enumerate(self.vocabulary.named_ports):
            if mask >> index & 1:
                numbers = endpoint.named_ports(port.name, port.protocol)
                if numbers:
                    found.append((index, numbers))
        return tuple(found)

    def row(self, endpoint: Endpoint) -> Row:
        """The endpoint as subject."""
        return self.place(endpoint, ())[0]

    def column(self, endpoint: Endpoint, family: int) -> EndpointColumn | None:
        """The endpoint as peer under its own address of `family`; None without one."""
        address = endpoint.address(family)
        if address is None:
            return None
        place = (family, self.addresses[family].atom_of(int(address)))
        return self.place(endpoint, (place,))[1][0]

    def place(
        self, endpoint: Endpoint, places: Iterable[tuple[int, int]]
    ) -> tuple[Row, list[EndpointColumn]]:
        """The endpoint's row, and its column for each (family, address atom) of `places`."""
        v, bits = self.vocabulary, self.bits(endpoint)
        row = Row(bits & v.subject_bits, self.named(endpoint, v.ingress_ports))
        peer, named = bits & v.peer_bits, self.named(endpoint, v.egress_ports)
        return row, [EndpointColumn(family, atom, peer, named) for family, atom in places]

    def address_column(self, address: Address) -> AddressColumn:
        """An address that no endpoint holds, as peer."""
        atom = self.addresses[address.version].atom_of(int(address))
        return AddressColumn(address.version, atom)


@dataclass(frozen=True)
class Atoms:
    """The partition of a universe: what the Decision IR is a table over."""

    classifier: Classifier
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    row_of: Mapping[str, int]
    """Qualified endpoint name -> index of its row; hostNetwork pods have none (A21)."""

    @property
    def vocabulary(self) -> Vocabulary:
        """What the rules read."""
        return self.classifier.vocabulary

    @cached_property
    def column_index(self) -> dict[Column, int]:
        """Column -> its index."""
        return {column: index for index, column in enumerate(self.columns)}

    @cached_property
    def row_index(self) -> dict[Row, int]:
        """Row -> its index."""
        return {row: index for index, row in enumerate(self.rows)}


def partition(
    vocabulary: Vocabulary,
    universe: Universe | None,
    pod_networks: tuple[Network, ...] = (),
) -> Atoms:
    """Partition a universe. Without one: the all-false and the single-selector signatures.

    `pod_networks` narrow where an address that exists but is not known can be (Node.spec.podCIDRs).
    """
    addresses = {family: address_atoms(vocabulary.blocks, family) for family in FAMILIES}
    classifier = Classifier(vocabulary, addresses)
    usual = {family: _usual_atoms(addresses[family], pod_networks) for family in FAMILIES}
    rows: dict[Row, None] = {Row(0): None}
    columns: dict[Column, None] = {
        AddressColumn(f, atom): None for f in FAMILIES for atom in range(len(addresses[f].blocks))
    }
    for family in FAMILIES:
        columns.update({EndpointColumn(family, atom, 0): None for atom in usual[family]})
    placed: dict[str, Row] = {}
    if universe is None:
        _single_selectors(vocabulary, usual, rows, columns)
    else:
        for endpoint in universe.endpoints:
            if endpoint.host_network:
                continue
            row, as_peer = classifier.place(endpoint, _places(endpoint, classifier, usual))
            rows[row] = None
            columns.update(dict.fromkeys(as_peer))
            placed[endpoint.qualified_name] = row
    numbers = {row: index for index, row in enumerate(rows)}
    row_of = {name: numbers[row] for name, row in placed.items()}
    return Atoms(classifier, tuple(rows), tuple(columns), row_of)


def _places(
    endpoint: Endpoint, classifier: Classifier, usual: Mapping[int, tuple[int, ...]]
) -> list[tuple[int, int]]:
    """(family, atom) of each address; where none is known, of each place it may well have."""
    if not endpoint.addresses_known:
        return [(family, atom) for family in FAMILIES for atom in usual[family]]
    return [
        (a.version, classifier.addresses[a.version].atom_of(int(a))) for a in endpoint.addresses
    ]


def _usual_atoms(atoms: AddressAtoms, pod_networks: tuple[Network, ...]) -> tuple[int, ...]:
    """Where pods of a family live: in the pod networks, else in the atom with most addresses."""
    mine = [_bounds(n) for n in pod_networks if n.version == atoms.family]
    if mine:
        inside = {
            atom
            for first, last, atom in atoms.runs()
            if any(first <= hi and lo <= last for lo, hi in mine)
        }
        return tuple(sorted(inside))
    size: defaultdict[int, int] = defaultdict(int)
    for first, last, atom in atoms.runs():
        size[atom] += last - first + 1
    return (max(sorted(size), key=lambda atom: size[atom]),)


def _single_selectors(
    vocabulary: Vocabulary,
    usual: Mapping[int, tuple[int, ...]],
    rows: dict[Row, None],
    columns: dict[Column, None],
) -> None:
    """The signatures in which exactly one selector holds; never all 2^n of them."""
    for bit in range(len(vocabulary.selectors)):
        mask = 1 << bit
        if mask & vocabulary.subject_bits:
            rows[Row(mask)] = None
        if mask & vocabulary.peer_bits:
            for family in FAMILIES:
                columns.update({EndpointColumn(family, a, mask): None for a in usual[family]})
