# SPDX-License-Identifier: Apache-2.0
"""The partition of a run as JSON values and back: vocabulary, address atoms, rows, columns.

It covers only what NetworkPolicies can read: label selectors, blocks and named ports.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from ipaddress import ip_network
from typing import Any, TypeVar

from policyc.compiler.driver.rebuild.shapes import (
    Blobs,
    kept,
    numbers_from,
    numbers_json,
    texts_from,
    texts_json,
    words_from,
    words_json,
)
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
from policyc.ir.lazy import Made
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


def partition_json(atoms: Atoms, blobs: Blobs) -> dict[str, Any] | None:
    """The partition as JSON values; None if rules read more than NetworkPolicies can."""
    v = atoms.vocabulary
    plain = all(selector.condition == ALWAYS for selector in v.selectors)
    if not plain or v.reads_nodes or v.own_blocks or v.node_conditions:
        return None
    masks = (v.subject_bits, v.peer_bits, v.ingress_ports, v.egress_ports)
    named: dict[NamedNumbers, int] = {}
    for some in ([row.named for row in atoms.rows], [c.named for c in _endpoints(atoms.columns)]):
        for each in some:
            named.setdefault(each, len(named))
    return {
        "selectors": texts_json(list(map(_selector, v.selectors)), blobs),
        "blocks": [_block(block) for block in v.blocks],
        "ports": [[port.protocol.name, port.name] for port in v.named_ports],
        "masks": numbers_json(masks, blobs),
        "addresses": [_addresses(each, blobs) for each in atoms.classifier.addresses.values()],
        "named": [[[index, *sorted(numbers)] for index, numbers in each] for each in named],
        "rows": [
            numbers_json((row.bits for row in atoms.rows), blobs),
            words_json((named[row.named] for row in atoms.rows), blobs),
        ],
        "columns": _columns(atoms.columns, named, blobs),
    }


def partition_from(value: dict[str, Any], blobs: Blobs) -> Atoms:
    """The partition that `partition_json` wrote, without the places of endpoints."""
    subject, peer, ingress, egress = numbers_from(value["masks"], blobs)
    vocabulary = _Vocabulary(
        selectors=Made(list(texts_from(value["selectors"], blobs)), _selector_from),
        blocks=Made(value["blocks"], _block_from),
        named_ports=tuple(NamedPort(Protocol[p], name) for p, name in value["ports"]),
        subject_bits=subject,
        peer_bits=peer,
        ingress_ports=ingress,
        egress_ports=egress,
    )
    addresses = [_addresses_from(each, blobs) for each in value["addresses"]]
    named = [
        tuple((index, frozenset(numbers)) for index, *numbers in each) for each in value["named"]
    ]
    bits, its_named = value["rows"]
    places = words_from(its_named, blobs)
    return Atoms(
        Classifier(vocabulary, {each.family: each for each in addresses}),
        tuple(map(Row, numbers_from(bits, blobs), map(named.__getitem__, places))),
        tuple(_columns_from(value["columns"], named, blobs)),
        {},
    )


def _addresses(atoms: AddressAtoms, blobs: Blobs) -> list[Any]:
    blocks = numbers_json(atoms.blocks, blobs)
    return [atoms.family, numbers_json(atoms.starts, blobs), words_json(atoms.atoms, blobs), blocks]


def _addresses_from(value: list[Any], blobs: Blobs) -> AddressAtoms:
    family, starts, atoms, blocks = value
    return AddressAtoms(
        family,
        tuple(numbers_from(starts, blobs)),
        tuple(words_from(atoms, blobs)),
        tuple(numbers_from(blocks, blobs)),
    )


def _endpoints(columns: Iterable[Column]) -> Iterator[EndpointColumn]:
    return (column for column in columns if isinstance(column, EndpointColumn))


def _columns(
    columns: Sequence[Column], named: Mapping[NamedNumbers, int], blobs: Blobs
) -> list[Any]:
    """Whether each is of an endpoint, its family and atom; for endpoints also bits and named ports."""
    kinds = bytes(2 * column.family + isinstance(column, EndpointColumn) for column in columns)
    endpoints = list(_endpoints(columns))
    return [
        kept(blobs, kinds),
        words_json((column.atom for column in columns), blobs),
        numbers_json((column.bits for column in endpoints), blobs),
        words_json((named[column.named] for column in endpoints), blobs),
    ]


def _columns_from(value: list[Any], named: list[NamedNumbers], blobs: Blobs) -> Iterator[Column]:
    kinds, atoms, bits, its_named = value
    found = numbers_from(bits, blobs)
    places = iter(words_from(its_named, blobs))
    for kind, atom in zip(blobs[kinds], words_from(atoms, blobs), strict=True):
        if kind & 1:
            yield EndpointColumn(kind >> 1, atom, next(found), named[next(places)])
        else:
            yield AddressColumn(kind >> 1, atom)


class _Places(Mapping[T, int]):
    """The position of each value, found by its text."""

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
