# SPDX-License-Identifier: Apache-2.0
"""Lemma 1: for every address, the blocks of the run it falls into are the blocks it is in.

A block whose runs lie inside its CIDR is checked as if the CIDR began at address 0. Subtracting its
first address from every address is one to one, so blocks of one shape are one question.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network

from policyc.ir.atoms import ADDRESS_BITS, AddressAtoms
from policyc.ir.bits import members
from policyc.ir.decision import DecisionIR
from policyc.ir.peers import AddressPeer, Network
from policyc.ir.universe import FAMILIES
from policyc.verifier.decision.outcome import (
    Broken,
    Obligation,
)
from policyc.verifier.decision.service_questions import Terms
from policyc.verifier.smt.lazy_z3 import z3
from policyc.verifier.smt.terms import (
    Term,
    in_block,
    in_range,
)


@dataclass(frozen=True, slots=True)
class BlockQuestion:
    """A block as its CIDRs in text, and the address runs (first, last) that should be inside it."""

    family: int
    network: str
    excepts: tuple[str, ...]
    runs: tuple[tuple[int, int], ...]

    def violated(self, terms: Terms) -> Term:
        """Some address, with every bit free, is in the block and in no run, or the other way round."""
        name = f"address{self.family}"
        address = terms.once(name, lambda: z3.BitVec(name, ADDRESS_BITS[self.family]))
        held = z3.Or(*(in_range(address, lo, hi) for lo, hi in self.runs))
        block = AddressPeer(ip_network(self.network), tuple(map(ip_network, self.excepts)))
        return z3.Xor(in_block(address, block), held)


def address_obligations(decision: DecisionIR) -> Iterator[Obligation]:
    """One obligation per block."""
    for family in FAMILIES:
        runs_of = _runs_of_blocks(decision.atoms.classifier.addresses[family])
        for index, block in enumerate(decision.atoms.vocabulary.blocks):
            if block.network.version == family:
                what = f"ipBlock {block.network} is not where the address runs have it"
                question, base = _question(block, runs_of.get(index, []))
                broken = Broken("addresses", what, family=family, address=base)
                yield Obligation(question, broken)


def _question(block: AddressPeer, runs: list[tuple[int, int]]) -> tuple[BlockQuestion, int]:
    """The question of a block, and the address that its address 0 stands for."""
    first, last = int(block.network.network_address), int(block.network.broadcast_address)
    base = first if all(first <= lo and hi <= last for lo, hi in runs) else 0
    question = BlockQuestion(
        block.network.version,
        _moved(block.network, base),
        tuple(_moved(hole, base) for hole in block.excepts),
        tuple((lo - base, hi - base) for lo, hi in runs),
    )
    return question, base


def _moved(network: Network, base: int) -> str:
    """A network shifted down by `base` addresses, as text; its host bits stay zero."""
    return str(type(network)((int(network.network_address) - base, network.prefixlen)))


def _runs_of_blocks(atoms: AddressAtoms) -> dict[int, list[tuple[int, int]]]:
    """Block -> its runs; neighbouring runs as one, so that the query stays small."""
    out: dict[int, list[tuple[int, int]]] = {}
    for lo, hi, atom in atoms.runs():
        for block in members(atoms.blocks[atom]):
            held = out.setdefault(block, [])
            if held and held[-1][1] + 1 == lo:
                held[-1] = (held[-1][0], hi)
            else:
                held.append((lo, hi))
    return out
