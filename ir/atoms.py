# SPDX-License-Identifier: Apache-2.0
"""Atoms: endpoints and addresses partitioned so that no rule distinguishes two members of an atom.

Input: a Vocabulary and a Universe. Output: *rows* (endpoint classes as subjects), *columns* (endpoint
classes as peers in one family, and address atoms), and the classifier that places any endpoint.

An endpoint class is the pair of its row and its columns. Endpoints of one class are equal in every
selector that the rules use, in the numbers of every named port that they use, and in the address atom of
each address. Where rules read nodes, a node has a column of its own under each of its addresses.
Otherwise a node is its address.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.intervals import IntervalSet
from policyc.ir.matching import condition_holds, selects
from policyc.ir.peers import AddressPeer, Network
from policyc.ir.selectors import EndpointSelector, Operator
from policyc.ir.universe import Address, Endpoint, Node
from policyc.ir.vocabulary import Vocabulary

ADDRESS_BITS = {4: 32, 6: 128}
NamedNumbers = tuple[tuple[int, frozenset[int]], ...]
"""(index of a named port, its numbers) for the named ports that the endpoint declares, ascending."""


@dataclass(frozen=True, slots=True)
class Row:
    """An endpoint class as subject.

    It holds the subject selectors that select the class, the ingress named ports, and per family the
    blocks that its address is in, among the blocks that rules test on the subject's own address.
    """

    bits: int
    named: NamedNumbers = ()
    own4: int = 0
    own6: int = 0

    def own(self, family: int) -> int:
        """The blocks that the address of one family is in, as a mask."""
        return self.own4 if family == 4 else self.own6


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


@dataclass(frozen=True, slots=True)
class NodeColumn:
    """A class of nodes as peer: the node conditions that hold, and whether it is the subject's own.

    Only where rules read nodes; the node conditions are a mask over Vocabulary.node_conditions.
    """

    family: int
    atom: int
    conditions: int
    is_local: bool = False


Column = EndpointColumn | AddressColumn | NodeColumn


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


def address_atoms(blocks: Sequence[AddressPeer], family: int) -> AddressAtoms:
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
    holes = IntervalSet.of(bounds(hole) for hole in block.excepts)
    return list(IntervalSet.of([bounds(block.network)]) - holes)


def bounds(network: Network) -> tuple[int, int]:
    """The first and the last address of a network, as numbers."""
    return int(network.network_address), int(network.broadcast_address)


@dataclass(frozen=True)
class Classifier:
    """Places any endpoint record: its row, and its column per family."""

    vocabulary: Vocabulary
    addresses: Mapping[int, AddressAtoms]

    @cached_property
    def _candidates(self) -> dict[object, list[tuple[int, EndpointSelector]]]:
        """The selectors by a label or namespace that every endpoint they select must have.

        By (namespace, key, value) for each value of a label that must be one of some values, else by
        namespace.
        """
        groups: dict[object, list[tuple[int, EndpointSelector]]] = {}
        for bit, selector in enumerate(self.vocabulary.selectors):
            for key in _needed(selector):
                groups.setdefault(key, []).append((bit, selector))
        return groups

    def bits(self, endpoint: Endpoint) -> int:
        """The selectors that select the endpoint, as a mask."""
        found = 0
        for namespace in (endpoint.namespace, None):
            keys = (namespace, *((namespace, *label) for label in endpoint.labels.items()))
            for key in keys:
                for bit, selector in self._candidates.get(key, ()):
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
        """The endpoint as subject, under the addresses it is known to have."""
        return self.place(endpoint, self.places(endpoint))[0]

    def column(self, endpoint: Endpoint, family: int) -> EndpointColumn | None:
        """The endpoint as peer under its own address of `family`; None without one."""
        address = endpoint.address(family)
        if address is None:
            return None
        return self.place(endpoint, (self.place_of(address),))[1][0]

    def places(self, endpoint: Endpoint) -> list[tuple[int, int]]:
        """(family, address atom) of each address that the endpoint is known to have."""
        return [self.place_of(address) for address in endpoint.addresses]

    def place_of(self, address: Address) -> tuple[int, int]:
        """(family, address atom) of an address."""
        return address.version, self.addresses[address.version].atom_of(int(address))

    def place(
        self, endpoint: Endpoint, places: Iterable[tuple[int, int]]
    ) -> tuple[Row, list[EndpointColumn]]:
        """The endpoint's row at (family, address atom) `places`, and its column for each of them."""
        places = list(places)
        v, bits = self.vocabulary, self.bits(endpoint)
        own = {family: self._own(family, atom) for family, atom in places}
        subject, declared = bits & v.subject_bits, self.named(endpoint, v.ingress_ports)
        row = Row(subject, declared, own.get(4, 0), own.get(6, 0))
        peer, named = bits & v.peer_bits, self.named(endpoint, v.egress_ports)
        return row, [EndpointColumn(family, atom, peer, named) for family, atom in places]

    def _own(self, family: int, atom: int) -> int:
        return self.addresses[family].blocks[atom] & self.vocabulary.own_blocks

    def address_column(self, address: Address) -> AddressColumn:
        """An address that neither an endpoint nor a node holds, as peer."""
        return AddressColumn(*self.place_of(address))

    def node_column(
        self, node: Node, family: int, is_local: bool
    ) -> NodeColumn | AddressColumn | None:
        """A node as peer under its address of `family`; None without one."""
        address = node.address(family)
        if address is None:
            return None
        v = self.vocabulary
        if not v.reads_nodes:
            return self.address_column(address)
        held = sum(1 << i for i, c in enumerate(v.node_conditions) if condition_holds(c, node))
        return NodeColumn(*self.place_of(address), held, is_local and v.reads_locality)


def _needed(selector: EndpointSelector) -> list[object]:
    """The keys under which a selector is filed: every endpoint that it selects has one of them."""
    lists = [r for r in selector.labels.requirements if r.operator is Operator.IN]
    if not lists:
        return [selector.namespace]
    shortest = min(lists, key=lambda requirement: len(requirement.values))
    return [(selector.namespace, shortest.key, value) for value in shortest.values]


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
        """The vocabulary that the rules read."""
        return self.classifier.vocabulary

    @cached_property
    def column_index(self) -> dict[Column, int]:
        """Column -> its index."""
        return {column: index for index, column in enumerate(self.columns)}

    @cached_property
    def row_index(self) -> dict[Row, int]:
        """Row -> its index."""
        return {row: index for index, row in enumerate(self.rows)}
