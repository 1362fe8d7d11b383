# SPDX-License-Identifier: Apache-2.0
"""The ends of flows as numbers: the fields of each end that native code reads, in one family.

An end is placed as in `ir/lookup.py`: an endpoint in its row and column, a node or an address in its
column. An end that the tables do not cover has no number: an endpoint of unknown address, a node under
host policy, a class that the Decision IR was not made for.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import IPv6Address

import numpy as np
import numpy.typing as npt

from policyc.backends.llvm.layout import Layout
from policyc.ir.atoms import AddressColumn, Column, EndpointColumn, Row
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import InternalError
from policyc.ir.policy import Direction
from policyc.ir.semantics import LINK_MULTICAST, as_seen
from policyc.ir.universe import Address, End, Endpoint, Node, end_address

NOWHERE = 0xFFFF_FFFF
NO_NODE = 0xFFFF_FFFE
NARROW, WIDE = 8, 16
"""Fields of an end in memory: WIDE if a rule distinguishes the own node from others, else NARROW."""
_LINK_LOCAL = (0xFE80 << 112, 0xFEC0 << 112)
_MULTICAST = (int(LINK_MULTICAST.network_address), int(LINK_MULTICAST.broadcast_address) + 1)


class Field(IntEnum):
    """The index of a field of an end."""

    EGRESS_ROW = 0
    INGRESS_ROW = 1
    EGRESS_COLUMN = 2
    INGRESS_COLUMN = 3
    POD = 4
    """From 1 on; 0: the end is not a pod of its own."""
    SPEAKS_FOR = 5
    """The node that generated the flows of this end, else NO_NODE."""
    HOME = 6
    """The node that a pod runs on, else NOWHERE."""
    ON_LINK = 7
    """1 if an IPv6 destination is on the link: neighbour discovery (A26)."""
    NEAR_EGRESS = 8
    NEAR_INGRESS = 9
    """Columns for subjects that run on this node."""
    NODE = 10
    """The node that this end is, else NO_NODE."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One end over the Decision IR; `row` None: not an endpoint. Nodes and pods are numbers."""

    row: int | None
    column: int
    near_column: int
    pod: int = 0
    speaks_for: int = NO_NODE
    home: int = NOWHERE
    node: int = NO_NODE
    is_on_link: bool = False


@dataclass
class Ends:
    """The ends that a batch may name, by their numbers in `placed`."""

    decision: DecisionIR
    placed: list[Placed] = field(default_factory=list)
    _numbers: dict[object, int] = field(default_factory=dict)
    _added: dict[tuple[Endpoint | Node, int], int | None] = field(default_factory=dict)
    _classes: dict[Endpoint, tuple[Row, list[EndpointColumn]]] = field(default_factory=dict)
    _pods: dict[Endpoint, int] = field(default_factory=dict)
    _nodes: dict[str, int] = field(default_factory=dict)
    _held: dict[int, dict[int, int]] = field(default_factory=lambda: {4: {}, 6: {}})

    def add(self, end: End, family: int) -> int | None:
        """The number of an end in flows of a family; None if the tables have no place for it."""
        if not isinstance(end, Endpoint | Node):
            return self._address(end)
        key = (end, family)
        if key not in self._added:
            placed = self._place(end, family)
            self._added[key] = None if placed is None else self._number(placed, placed)
        return self._added[key]

    def hold(self, address: Address, end: End) -> None:
        """Record that raw addresses equal to this one are that end, a pod or a node."""
        number = self.add(end, address.version)
        if number is None:
            raise InternalError(f"{address} is of an end that the tables have no place for")
        self._held[address.version][int(address)] = number

    def book(self, family: int) -> list[tuple[int, int]]:
        """(first address, end) of every run of addresses of a family, from 0 on."""
        atoms = self.decision.atoms.classifier.addresses[family]
        held = self._held[family]
        last = 1 << (32 if family == 4 else 128)
        links = (*_LINK_LOCAL, *_MULTICAST) if family == 6 else ()
        starts = {*atoms.starts, *links, *held, *(address + 1 for address in held)}
        found: list[tuple[int, int]] = []
        for start in sorted(starts - {last}):
            end = held.get(start)
            if end is None:
                end = self._run(family, atoms.atom_of(start), _is_on_link(start, family))
            if not found or found[-1][1] != end:
                found.append((start, end))
        return found

    def table(self, layout: Layout, is_wide: bool) -> npt.NDArray[np.uint32]:
        """The fields of every end, one after the other."""
        out = np.zeros((max(1, len(self.placed)), WIDE if is_wide else NARROW), dtype=np.uint32)
        for direction, row, column, near in (
            (Direction.EGRESS, Field.EGRESS_ROW, Field.EGRESS_COLUMN, Field.NEAR_EGRESS),
            (Direction.INGRESS, Field.INGRESS_ROW, Field.INGRESS_COLUMN, Field.NEAR_INGRESS),
        ):
            grid = layout.grids[direction]
            for record, end in zip(out, self.placed, strict=False):
                record[row] = grid.outside if end.row is None else grid.row_of[end.row]
                record[column] = grid.column_of[end.column]
                if is_wide:
                    record[near] = grid.column_of[end.near_column]
        for record, end in zip(out, self.placed, strict=False):
            record[Field.POD], record[Field.ON_LINK] = end.pod, end.is_on_link
            record[Field.SPEAKS_FOR], record[Field.HOME] = end.speaks_for, end.home
            if is_wide:
                record[Field.NODE] = end.node
        return out

    @property
    def is_wide(self) -> bool:
        """Whether a node is another peer to the pods that run on it than to other pods."""
        return any(end.near_column != end.column for end in self.placed)

    def _number(self, key: object, placed: Placed) -> int:
        found = self._numbers.setdefault(key, len(self.placed))
        if found == len(self.placed):
            self.placed.append(placed)
        return found

    def _address(self, address: Address) -> int:
        family, atom = self.decision.atoms.classifier.place_of(address)
        return self._run(family, atom, _is_on_link(int(address), family))

    def _run(self, family: int, atom: int, is_on_link: bool) -> int:
        """Addresses of one atom; addresses on the link are separate."""
        key = (family, atom, is_on_link)
        found = self._numbers.get(key)
        if found is None:
            column = self._column_of_atom(family, atom)
            placed = Placed(None, column, column, is_on_link=is_on_link)
            found = self._number(key, placed)
        return found

    def _column_of_atom(self, family: int, atom: int) -> int:
        return self.decision.atoms.column_index[AddressColumn(family, atom)]

    def _place(self, end: Endpoint | Node, family: int) -> Placed | None:
        seen = as_seen(end)
        if isinstance(end, Endpoint) and not end.addresses_known:
            return None
        if isinstance(seen, Node) and seen.host is not None:
            return None
        columns = self._columns(seen, family)
        row = self._row(seen) if isinstance(seen, Endpoint) else None
        if columns is None or (row is None and isinstance(seen, Endpoint)):
            return None
        destination = end_address(end, 6)
        return Placed(
            row,
            *columns,
            pod=self._pods.setdefault(seen, len(self._pods) + 1)
            if isinstance(seen, Endpoint)
            else 0,
            speaks_for=self._speaks_for(end),
            home=self._node(end.node, NOWHERE) if isinstance(end, Endpoint) else NOWHERE,
            node=self._node(seen.name, NO_NODE) if isinstance(seen, Node) else NO_NODE,
            is_on_link=isinstance(destination, IPv6Address)
            and _is_on_link(int(destination), family),
        )

    def _class(self, endpoint: Endpoint) -> tuple[Row, list[EndpointColumn]]:
        """The class by its record: replicas of one name may have different addresses."""
        if endpoint not in self._classes:
            classifier = self.decision.atoms.classifier
            self._classes[endpoint] = classifier.place(endpoint, classifier.places(endpoint))
        return self._classes[endpoint]

    def _row(self, endpoint: Endpoint) -> int | None:
        return self.decision.atoms.row_index.get(self._class(endpoint)[0])

    def _columns(self, seen: End, family: int) -> tuple[int, int] | None:
        """The column for pods elsewhere, and for those that run on the same node."""
        classifier, index = self.decision.atoms.classifier, self.decision.atoms.column_index
        far: Column | None
        near: Column | None
        if isinstance(seen, Node):
            far, near = (
                classifier.node_column(seen, family, is_local) for is_local in (False, True)
            )
        else:
            assert isinstance(seen, Endpoint)
            mine = (c for c in self._class(seen)[1] if c.family == family)
            far = near = next(mine, None)
        if far is None or near is None or far not in index or near not in index:
            return None
        return index[far], index[near]

    def _speaks_for(self, end: Endpoint | Node) -> int:
        """The node whose own traffic an end sends (A22)."""
        if isinstance(end, Node):
            return self._node(end.name, NO_NODE) if end.speaks else NO_NODE
        return self._node(end.node, NO_NODE) if end.host_network else NO_NODE

    def _node(self, name: str, otherwise: int) -> int:
        return self._nodes.setdefault(name, len(self._nodes)) if name else otherwise


def _is_on_link(address: int, family: int) -> bool:
    return family == 6 and any(
        first <= address < after for first, after in (_LINK_LOCAL, _MULTICAST)
    )
