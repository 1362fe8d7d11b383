# SPDX-License-Identifier: Apache-2.0
"""Partition a universe into atoms (`ir/atoms.py`): the rows and columns that exist, or could exist.

Input: a Vocabulary and a Universe. Without a universe: the signatures in which exactly one selector, or
node condition, holds.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from policyc.ir.atoms import (
    AddressAtoms,
    AddressColumn,
    Atoms,
    Classifier,
    Column,
    EndpointColumn,
    NodeColumn,
    Row,
    address_atoms,
    bounds,
)
from policyc.ir.peers import Network
from policyc.ir.semantics import as_seen
from policyc.ir.universe import FAMILIES, Endpoint, Node, Universe
from policyc.ir.vocabulary import Vocabulary


def partition(
    vocabulary: Vocabulary,
    universe: Universe | None,
    pod_networks: tuple[Network, ...] = (),
) -> Atoms:
    """Partition a universe. Without one: the all-false and the single-selector signatures.

    `pod_networks` (Node.spec.podCIDRs) restrict the possible addresses of an endpoint with an unknown
    address.
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
        _single_signatures(vocabulary, usual, addresses, rows, columns)
    else:
        for endpoint in universe.endpoints:
            if endpoint.host_network:
                continue
            found, as_peer = _classes(endpoint, classifier, usual)
            rows.update(dict.fromkeys(found))
            columns.update(dict.fromkeys(as_peer))
            if len(found) == 1:
                placed[endpoint.qualified_name] = found[0]
        columns.update(dict.fromkeys(_node_columns(classifier, universe)))
    numbers = {row: index for index, row in enumerate(rows)}
    row_of = {name: numbers[row] for name, row in placed.items()}
    return Atoms(classifier, tuple(rows), tuple(columns), row_of)


def _classes(
    endpoint: Endpoint, classifier: Classifier, usual: Mapping[int, tuple[int, ...]]
) -> tuple[list[Row], list[EndpointColumn]]:
    """The rows and columns that an endpoint can have: several if its addresses are not known."""
    if endpoint.addresses_known:
        row, columns = classifier.place(endpoint, classifier.places(endpoint))
        return [row], columns
    anywhere = [(family, atom) for family in FAMILIES for atom in usual[family]]
    _, columns = classifier.place(endpoint, anywhere)
    pairs = product(*([(family, atom) for atom in usual[family]] for family in FAMILIES))
    return list(dict.fromkeys(classifier.place(endpoint, pair)[0] for pair in pairs)), columns


def _node_columns(classifier: Classifier, universe: Universe) -> Iterator[Column]:
    """The columns of nodes under each address, near and far, if rules distinguish them."""
    if not classifier.vocabulary.reads_nodes:
        return
    for node in (*universe.nodes, *_seen_as_nodes(universe)):
        for address in node.addresses:
            alone = replace(node, addresses=(address,))
            for is_local in (False, True):
                column = classifier.node_column(alone, address.version, is_local)
                if column is not None:
                    yield column


def _seen_as_nodes(universe: Universe) -> Iterator[Node]:
    """The nodes that hostNetwork pods are seen as (A21)."""
    for endpoint in universe.endpoints:
        node = as_seen(endpoint)
        if isinstance(node, Node):
            yield node


def _usual_atoms(atoms: AddressAtoms, pod_networks: tuple[Network, ...]) -> tuple[int, ...]:
    """The atoms of a family's pod addresses: in the pod networks, else the atom with most addresses."""
    mine = [bounds(n) for n in pod_networks if n.version == atoms.family]
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


def _single_signatures(
    vocabulary: Vocabulary,
    usual: Mapping[int, tuple[int, ...]],
    addresses: Mapping[int, AddressAtoms],
    rows: dict[Row, None],
    columns: dict[Column, None],
) -> None:
    """The signatures in which exactly one selector, or node condition, holds; never all 2^n of them."""
    own = [
        Row(0, (), *(addresses[f].blocks[atom] & vocabulary.own_blocks for f, atom in pair))
        for pair in product(*([(f, atom) for atom in usual[f]] for f in FAMILIES))
    ]
    rows.update(dict.fromkeys(own))
    for bit in range(len(vocabulary.selectors)):
        mask = 1 << bit
        if mask & vocabulary.subject_bits:
            rows.update(dict.fromkeys(replace(row, bits=mask) for row in own))
        if mask & vocabulary.peer_bits:
            for family in FAMILIES:
                columns.update({EndpointColumn(family, a, mask): None for a in usual[family]})
    if vocabulary.reads_nodes:
        conditions = (0, *(1 << index for index in range(len(vocabulary.node_conditions))))
        near = (False, True) if vocabulary.reads_locality else (False,)
        for family, held, is_local in product(FAMILIES, conditions, near):
            columns.update({NodeColumn(family, a, held, is_local): None for a in usual[family]})
