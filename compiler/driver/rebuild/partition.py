# SPDX-License-Identifier: Apache-2.0
"""The partition of a run as JSON values and back: vocabulary, address atoms, rows, columns.

Only of what NetworkPolicies can read: label selectors, blocks and named ports.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from ipaddress import ip_network
from typing import Any, TypeVar

from policyc.ir.atoms import (
    AddressAtoms,
    AddressColumn,
    Atoms,
    Classifier,
    Column,
    EndpointColumn,
    NamedNumbers,
    Row,
)
from policyc.ir.made import Made
from policyc.ir.peers import AddressPeer
from policyc.ir.policy import NamedPort
from policyc.ir.selectors import (
    ALWAYS,
    EndpointSelector,
    LabelSelector,
    Operator,
    Requirement,
)
from policyc.ir.services import Protocol
from policyc.ir.vocabulary import Vocabulary

T = TypeVar("T")


def partition_json(atoms: Atoms) -> dict[str, Any] | None:
    """The partition as JSON values; None where rules read more than NetworkPolicies can."""
    v = atoms.vocabulary
    plain = all(selector.condition == ALWAYS for selector in v.selectors)
    if not plain or v.reads_nodes or v.own_blocks or v.node_conditions:
        return None
    return {
        "selectors": [_selector(selector) for selector in v.selectors],
        "blocks": [_block(block) for block in v.blocks],
        "ports": [[port.protocol.name, port.name] for port in v.named_ports],
        "masks": [f"{m:x}" for m in (v.subject_bits, v.peer_bits, v.ingress_ports, v.egress_ports)],
        "addresses": [
            [a.family, [f"{x:x}" for x in a.starts], a.atoms, [f"{x:x}" for x in a.blocks]]
            for a in atoms.classifier.addresses.values()
        ],
        "rows": [[f"{row.bits:x}", _named(row.named)] for row in atoms.rows],
        "columns": [_column(column) for column in atoms.columns],
    }


def partition_from(value: dict[str, Any]) -> Atoms:
    """The partition that `partition_json` wrote, without the places of endpoints."""
    subject, peer, ingress, egress = (int(mask, 16) for mask in value["masks"])
    vocabulary = _Vocabulary(
        selectors=Made(value["selectors"], _selector_from),
        blocks=Made(value["blocks"], _block_from),
        named_ports=tuple(NamedPort(Protocol[p], name) for p, name in value["ports"]),
        subject_bits=subject,
        peer_bits=peer,
        ingress_ports=ingress,
        egress_ports=egress,
    )
    addresses = {
        family: AddressAtoms(family, _numbers(starts), tuple(atoms), _numbers(blocks))
        for family, starts, atoms, blocks in value["addresses"]
    }
    return Atoms(
        Classifier(vocabulary, addresses),
        tuple(Row(int(bits, 16), _named_from(named)) for bits, named in value["rows"]),
        tuple(map(_column_from, value["columns"])),
        {},
    )


def _numbers(texts: Iterable[str]) -> tuple[int, ...]:
    return tuple(int(text, 16) for text in texts)


class _Places(Mapping[T, int]):
    """Where each value stands, found by its text."""

    def __init__(self, values: Sequence[T], text: Callable[[T], str]) -> None:
        assert isinstance(values, Made)
        self._values, self._text = values, text
        self._places = {each: at for at, each in enumerate(values.texts)}

    def __getitem__(self, value: T) -> int:
        return self._places[self._text(value)]

    def __iter__(self) -> Iterator[T]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._places)


class _Vocabulary(Vocabulary):
    """A vocabulary whose selectors and blocks are `Made`."""

    @cached_property
    def bit_of(self) -> Mapping[EndpointSelector, int]:
        return _Places(self.selectors, _selector)

    @cached_property
    def block_of(self) -> Mapping[AddressPeer, int]:
        return _Places(self.blocks, _block)


def _selector(selector: EndpointSelector) -> str:
    parts = (selector.namespace_labels, selector.labels)
    labels = ([[r.key, r.operator.value, *r.values] for r in part.requirements] for part in parts)
    plain = selector.condition == ALWAYS
    return json.dumps([selector.namespace, *labels] if plain else [])


def _selector_from(text: str) -> EndpointSelector:
    namespace, namespace_labels, labels = json.loads(text)
    return EndpointSelector(namespace, _labels_from(namespace_labels), _labels_from(labels))


def _labels_from(value: list[list[str]]) -> LabelSelector:
    return LabelSelector(
        tuple(Requirement(key, Operator(how), tuple(values)) for key, how, *values in value)
    )


def _block(block: AddressPeer) -> str:
    return " ".join(map(str, (block.network, *block.excepts)))


def _block_from(text: str) -> AddressPeer:
    network, *excepts = map(ip_network, text.split())
    return AddressPeer(network, tuple(excepts))


def _named(named: NamedNumbers) -> list[list[int]]:
    return [[index, *sorted(numbers)] for index, numbers in named]


def _named_from(value: list[list[int]]) -> NamedNumbers:
    return tuple((index, frozenset(numbers)) for index, *numbers in value)


def _column(column: Column) -> list[Any]:
    if isinstance(column, EndpointColumn):
        return [column.family, column.atom, f"{column.bits:x}", _named(column.named)]
    return [column.family, column.atom]


def _column_from(value: list[Any]) -> Column:
    if len(value) == 2:
        return AddressColumn(*value)
    family, atom, bits, named = value
    return EndpointColumn(family, atom, int(bits, 16), _named_from(named))
