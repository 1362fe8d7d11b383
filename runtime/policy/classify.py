# SPDX-License-Identifier: Apache-2.0
"""The bundle's classifier: from an endpoint record to its row and columns.

It is the twin of `ir/atoms.py` on the node. Both read label selectors as metav1.LabelSelector defines
them.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from policyc.runtime.bundle.address_value import Address
from policyc.runtime.endpoints.endpoints import (
    EndpointRecord,
    NodeRecord,
)
from policyc.runtime.policy.matching import (
    Attributes,
    check_condition,
    check_requirement,
    condition_holds,
    requirement_holds,
)

Named = tuple[tuple[int, tuple[int, ...]], ...]
"""(index of a named port, its numbers), ascending."""


@dataclass(frozen=True, slots=True)
class RowKey:
    """An endpoint class as subject.

    It consists of the subject selectors that match, the ingress named ports, and the blocks of its own
    addresses.
    """

    bits: frozenset[int]
    named: Named = ()
    own4: frozenset[int] = frozenset()
    own6: frozenset[int] = frozenset()

    def own(self, family: int) -> frozenset[int]:
        """The blocks that contain its address, of the blocks that rules read of the subject."""
        return self.own4 if family == 4 else self.own6


@dataclass(frozen=True, slots=True)
class ColumnKey:
    """A peer in one family: an endpoint (`bits`), a node (`node`, its conditions), or an address."""

    family: int
    atom: int
    bits: frozenset[int] | None = None
    named: Named = ()
    node: frozenset[int] | None = None
    is_local: bool = False


class Classifier:
    """Reads classifier.json."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._selectors: list[dict[str, Any]] = data["selectors"]
        self._subject_bits = frozenset(data["subject_bits"])
        self._peer_bits = frozenset(data["peer_bits"])
        self._starts = {
            int(family): [int(start, 16) for start in atoms["starts"]]
            for family, atoms in data["addresses"].items()
        }
        self._own_blocks = frozenset(data["own_blocks"])
        self._by_namespace: dict[str | None, list[int]] = {}
        for bit, selector in enumerate(self._selectors):
            self._by_namespace.setdefault(selector["namespace"], []).append(bit)
            check_condition(selector["condition"])
            for requirement in (*selector["namespaceLabels"], *selector["labels"]):
                check_requirement(requirement)
        for condition in data["node_conditions"]:
            check_condition(condition)

    @property
    def reads_nodes(self) -> bool:
        """Whether some rule distinguishes a node from an address."""
        return bool(self._data["reads_nodes"])

    def known_rows(self) -> list[RowKey]:
        """The rows the compiler made, in the order of their ids."""
        return [
            RowKey(
                frozenset(row["bits"]),
                _named(row["named"]),
                frozenset(row["own"]["4"]),
                frozenset(row["own"]["6"]),
            )
            for row in self._data["rows"]
        ]

    def known_columns(self) -> list[ColumnKey]:
        """The columns the compiler made, in the order of their ids."""
        return [_column(column) for column in self._data["columns"]]

    def row(self, endpoint: EndpointRecord) -> RowKey:
        """The endpoint as subject."""
        bits = self._bits(endpoint) & self._subject_bits
        own4, own6 = self._own(endpoint, 4), self._own(endpoint, 6)
        return RowKey(bits, self._named(endpoint, self._data["ingress_ports"]), own4, own6)

    def _own(self, endpoint: EndpointRecord, family: int) -> frozenset[int]:
        if not self._own_blocks or family not in endpoint.addresses:
            return frozenset()
        atom = self._atom(endpoint.addresses[family])
        return self._own_blocks.intersection(self._data["addresses"][str(family)]["blocks"][atom])

    def column(self, endpoint: EndpointRecord, family: int) -> ColumnKey:
        """The endpoint as peer, under its address of `family`, which it must have."""
        atom = self._atom(endpoint.addresses[family])
        bits = self._bits(endpoint) & self._peer_bits
        return ColumnKey(family, atom, bits, self._named(endpoint, self._data["egress_ports"]))

    def node_column(self, node: NodeRecord, address: Address, is_local: bool) -> ColumnKey | None:
        """A node as peer under one address; None if no rule distinguishes nodes from addresses."""
        if not self.reads_nodes:
            return None
        of: Attributes = {"node label": node.labels, "node": {"": node.name}}
        held = frozenset(
            index
            for index, condition in enumerate(self._data["node_conditions"])
            if condition_holds(condition, of)
        )
        is_near = is_local and self._data["reads_locality"]
        return ColumnKey(address.version, self._atom(address), node=held, is_local=is_near)

    def address_column(self, address: Address) -> ColumnKey:
        """An address, as peer, that belongs to no pod."""
        return ColumnKey(address.version, self._atom(address))

    def _atom(self, address: Address) -> int:
        at = bisect_right(self._starts[address.version], int(address)) - 1
        atom: int = self._data["addresses"][str(address.version)]["atoms"][at]
        return atom

    def blocks_of(self, column: ColumnKey) -> frozenset[int]:
        """The address blocks that contain a column's addresses."""
        return frozenset(self._data["addresses"][str(column.family)]["blocks"][column.atom])

    def _bits(self, endpoint: EndpointRecord) -> frozenset[int]:
        candidates = (
            *self._by_namespace.get(endpoint.namespace, ()),
            *self._by_namespace.get(None, ()),
        )
        return frozenset(bit for bit in candidates if self._selects(bit, endpoint))

    def _selects(self, bit: int, endpoint: EndpointRecord) -> bool:
        selector = self._selectors[bit]
        return all(
            requirement_holds(requirement, labels)
            for key, labels in (
                ("namespaceLabels", endpoint.namespace_labels),
                ("labels", endpoint.labels),
            )
            for requirement in selector[key]
        ) and condition_holds(selector["condition"], _attributes(endpoint))

    def _named(self, endpoint: EndpointRecord, indices: list[int]) -> Named:
        found = []
        for index in indices:
            port = self._data["named_ports"][index]
            numbers = {
                p.port
                for p in endpoint.ports
                if p.name == port["name"] and p.protocol == port["protocol"]
            }
            if numbers:
                found.append((index, tuple(sorted(numbers))))
        return tuple(found)


def _named(value: list[Any]) -> Named:
    return tuple((index, tuple(numbers)) for index, numbers in value)


def _column(column: Mapping[str, Any]) -> ColumnKey:
    family, atom = column["family"], column["atom"]
    if "bits" in column:
        return ColumnKey(family, atom, frozenset(column["bits"]), _named(column["named"]))
    if "node" in column:
        node = frozenset(column["node"])
        return ColumnKey(family, atom, node=node, is_local=column["local"])
    return ColumnKey(family, atom)


def _attributes(endpoint: EndpointRecord) -> Attributes:
    """All attributes of an endpoint that a condition can read."""
    return {
        "label": endpoint.labels,
        "namespace label": endpoint.namespace_labels,
        "service account label": endpoint.service_account_labels,
        "node label": endpoint.node_labels,
        "namespace": {"": endpoint.namespace},
        "service account": {"": endpoint.service_account},
        "node": {"": endpoint.node} if endpoint.node else {},
    }
