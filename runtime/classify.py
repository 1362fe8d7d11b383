# SPDX-License-Identifier: Apache-2.0
"""The classifier a bundle carries: from an endpoint record to its row and columns.

The twin of `ir/atoms.py` on the node; both read label selectors as metav1.LabelSelector says.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from policyc.runtime.endpoints import EndpointRecord

Named = tuple[tuple[int, tuple[int, ...]], ...]
"""(index of a named port, its numbers), ascending."""


@dataclass(frozen=True, slots=True)
class RowKey:
    """An endpoint class as subject: the subject selectors that hold, the ingress named ports."""

    bits: frozenset[int]
    named: Named = ()


@dataclass(frozen=True, slots=True)
class ColumnKey:
    """A peer in one family; `bits` None is an address that no endpoint holds."""

    family: int
    atom: int
    bits: frozenset[int] | None = None
    named: Named = ()


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
        self._by_namespace: dict[str | None, list[int]] = {}
        for bit, selector in enumerate(self._selectors):
            self._by_namespace.setdefault(selector["namespace"], []).append(bit)

    def known_rows(self) -> list[RowKey]:
        """The rows the compiler made, in the order of their ids."""
        return [RowKey(frozenset(row["bits"]), _named(row["named"])) for row in self._data["rows"]]

    def known_columns(self) -> list[ColumnKey]:
        """The columns the compiler made, in the order of their ids."""
        return [
            ColumnKey(c["family"], c["atom"], frozenset(c["bits"]), _named(c["named"]))
            if "bits" in c
            else ColumnKey(c["family"], c["atom"])
            for c in self._data["columns"]
        ]

    def row(self, endpoint: EndpointRecord) -> RowKey:
        """The endpoint as subject."""
        bits = self._bits(endpoint) & self._subject_bits
        return RowKey(bits, self._named(endpoint, self._data["ingress_ports"]))

    def column(self, endpoint: EndpointRecord, family: int) -> ColumnKey:
        """The endpoint as peer, under its address of `family`, which it must have."""
        at = bisect_right(self._starts[family], int(endpoint.addresses[family])) - 1
        atom: int = self._data["addresses"][str(family)]["atoms"][at]
        bits = self._bits(endpoint) & self._peer_bits
        return ColumnKey(family, atom, bits, self._named(endpoint, self._data["egress_ports"]))

    def blocks_of(self, column: ColumnKey) -> frozenset[int]:
        """The address blocks that a column's addresses are in."""
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
            _holds(requirement, labels)
            for key, labels in (
                ("namespaceLabels", endpoint.namespace_labels),
                ("labels", endpoint.labels),
            )
            for requirement in selector[key]
        )

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


def _holds(requirement: list[Any], labels: Mapping[str, str]) -> bool:
    """One requirement; NotIn also holds where the key is absent."""
    key, operator, values = requirement
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            raise ValueError(f"classifier.json: operator {operator!r}")
