# SPDX-License-Identifier: Apache-2.0
"""Lemma 1: for every address, the blocks of the run it falls into are the blocks it is in."""

from collections.abc import Iterable, Iterator

import z3

from policyc.ir.atoms import ADDRESS_BITS
from policyc.ir.decision import DecisionIR
from policyc.ir.universe import FAMILIES
from policyc.verifier.outcome import Broken, Obligation
from policyc.verifier.terms import in_block, in_range


def address_obligations(decision: DecisionIR) -> Iterator[Obligation]:
    """One obligation per block; every bit of the address is free."""
    for family in FAMILIES:
        atoms = decision.atoms.classifier.addresses[family]
        address = z3.BitVec(f"address{family}", ADDRESS_BITS[family])
        runs = list(atoms.runs())
        for index, block in enumerate(decision.atoms.vocabulary.blocks):
            if block.network.version != family:
                continue
            held = _joined((lo, hi) for lo, hi, atom in runs if atoms.blocks[atom] >> index & 1)
            table = z3.Or(*(in_range(address, lo, hi) for lo, hi in held))
            what = f"ipBlock {block.network} is not where the address runs have it"
            broken = Broken("addresses", what, family=family)
            yield Obligation(z3.Xor(in_block(address, block), table), broken)


def _joined(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbouring runs as one, so that the query stays small."""
    out: list[tuple[int, int]] = []
    for lo, hi in runs:
        if out and out[-1][1] + 1 == lo:
            out[-1] = (out[-1][0], hi)
        else:
            out.append((lo, hi))
    return out
