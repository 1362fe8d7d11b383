# SPDX-License-Identifier: Apache-2.0
"""Lemma 2: every endpoint is in the row and columns that its labels, ports and addresses require.

A finite check, by the reference semantics' own `selects`. A selector whose requirements an endpoint
certainly lacks is skipped (`candidates.py`).
"""

from collections.abc import Container, Iterator

from policyc.ir.atoms import EndpointColumn, NamedNumbers, NodeColumn, Row
from policyc.ir.bits import union
from policyc.ir.decision import DecisionIR
from policyc.ir.matching import condition_holds, in_block, selects
from policyc.ir.semantics import as_seen
from policyc.ir.universe import Endpoint, Node, Universe
from policyc.verifier.decision.candidates import Candidates
from policyc.verifier.decision.outcome import Broken


def placement_faults(
    universe: Universe, decision: DecisionIR, subjects: Container[str] | None = None
) -> Iterator[Broken]:
    """The faults in the places of the universe's endpoints.

    Every endpoint is in its columns; in its row, too, if it is among `subjects` (None: all are).
    """
    atoms = decision.atoms
    v = atoms.vocabulary
    candidates = Candidates(v.selectors)
    for node in universe.nodes:
        yield from _node_faults(node, decision)
    for endpoint in universe.endpoints:
        if endpoint.host_network:
            seen = as_seen(endpoint)
            if isinstance(seen, Node):
                yield from _node_faults(seen, decision)
            continue
        name = endpoint.qualified_name
        if subjects is None or name in subjects:
            yield from _row_faults(endpoint, decision, candidates)
        bits = _selecting(candidates, v.peer_bits, endpoint)
        named = _declared(decision, v.egress_ports, endpoint)
        for address in endpoint.addresses:
            atom = atoms.classifier.addresses[address.version].atom_of(int(address))
            column = EndpointColumn(address.version, atom, bits, named)
            if column not in atoms.column_index:
                yield Broken("placement", f"{name} has no column for {address}")


def _row_faults(
    endpoint: Endpoint, decision: DecisionIR, candidates: Candidates
) -> Iterator[Broken]:
    """The faults in an endpoint's place as subject."""
    atoms, v = decision.atoms, decision.atoms.vocabulary
    name = endpoint.qualified_name
    row = Row(
        _selecting(candidates, v.subject_bits, endpoint),
        _declared(decision, v.ingress_ports, endpoint),
        _own_blocks(decision, endpoint, 4),
        _own_blocks(decision, endpoint, 6),
    )
    index = atoms.row_of.get(name, -1)
    if index < 0 and v.own_blocks and not endpoint.addresses_known:
        return  # its row depends on an address that is not known yet
    if index < 0 or not _is_row(atoms.rows[index], row, endpoint):
        yield Broken("placement", f"{name} is in the wrong row", row=index)


def _is_row(found: Row, wanted: Row, endpoint: Endpoint) -> bool:
    """Whether it is the endpoint's row; if addresses are unknown, apart from their blocks."""
    if endpoint.addresses_known:
        return found == wanted
    return (found.bits, found.named) == (wanted.bits, wanted.named)


def _own_blocks(decision: DecisionIR, endpoint: Endpoint, family: int) -> int:
    """The blocks that rules test on a subject's own address and that contain this one."""
    address = endpoint.address(family)
    v = decision.atoms.vocabulary
    if not v.own_blocks:
        return 0
    return sum(
        1 << index
        for index, block in enumerate(v.blocks)
        if address is not None and v.own_blocks >> index & 1 and in_block(block, address)
    )


def _node_faults(node: Node, decision: DecisionIR) -> Iterator[Broken]:
    """If rules read nodes, a node has a column under each address, near and far."""
    v = decision.atoms.vocabulary
    if not v.reads_nodes:
        return
    held = sum(1 << i for i, c in enumerate(v.node_conditions) if condition_holds(c, node))
    for address in node.addresses:
        atom = decision.atoms.classifier.addresses[address.version].atom_of(int(address))
        for is_local in {False, v.reads_locality}:
            column = NodeColumn(address.version, atom, held, is_local)
            if column not in decision.atoms.column_index:
                yield Broken("placement", f"node {node.name} has no column for {address}")


def _selecting(candidates: Candidates, mask: int, endpoint: Endpoint) -> int:
    return union(
        1 << bit
        for bit, selector in candidates.of(endpoint)
        if mask >> bit & 1 and selects(selector, endpoint)
    )


def _declared(decision: DecisionIR, mask: int, endpoint: Endpoint) -> NamedNumbers:
    found = []
    for index, port in enumerate(decision.atoms.vocabulary.named_ports):
        numbers = endpoint.named_ports(port.name, port.protocol)
        if mask >> index & 1 and numbers:
            found.append((index, numbers))
    return tuple(found)
