# SPDX-License-Identifier: Apache-2.0
"""Lemma 2: every endpoint stands in the row and columns that its labels, ports and addresses ask for.

A finite check, by the reference semantics' own `selects`.
"""

from collections.abc import Iterator

from policyc.ir.atoms import EndpointColumn, NamedNumbers, Row
from policyc.ir.decision import DecisionIR
from policyc.ir.semantics import selects
from policyc.ir.universe import Endpoint, Universe
from policyc.verifier.outcome import Broken


def placement_faults(universe: Universe, decision: DecisionIR) -> Iterator[Broken]:
    """What is wrong with the places of the universe's endpoints."""
    atoms = decision.atoms
    v = atoms.vocabulary
    for endpoint in universe.endpoints:
        if endpoint.host_network:
            continue
        name = endpoint.qualified_name
        row = Row(
            _selecting(decision, v.subject_bits, endpoint),
            _declared(decision, v.ingress_ports, endpoint),
        )
        index = atoms.row_of.get(name, -1)
        if index < 0 or atoms.rows[index] != row:
            yield Broken("placement", f"{name} is in the wrong row", row=index)
        bits = _selecting(decision, v.peer_bits, endpoint)
        named = _declared(decision, v.egress_ports, endpoint)
        for address in endpoint.addresses:
            atom = atoms.classifier.addresses[address.version].atom_of(int(address))
            column = EndpointColumn(address.version, atom, bits, named)
            if column not in atoms.column_index:
                yield Broken("placement", f"{name} has no column for {address}")


def _selecting(decision: DecisionIR, mask: int, endpoint: Endpoint) -> int:
    return sum(
        1 << bit
        for bit, selector in enumerate(decision.atoms.vocabulary.selectors)
        if mask >> bit & 1 and selects(selector, endpoint)
    )


def _declared(decision: DecisionIR, mask: int, endpoint: Endpoint) -> NamedNumbers:
    found = []
    for index, port in enumerate(decision.atoms.vocabulary.named_ports):
        numbers = endpoint.named_ports(port.name, port.protocol)
        if mask >> index & 1 and numbers:
            found.append((index, numbers))
    return tuple(found)
