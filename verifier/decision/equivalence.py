# SPDX-License-Identifier: Apache-2.0
"""Prove that a Decision IR means the same as its Policy IR, for every flow of the universe.

Input: policies, a universe (None: everything that could exist) and a Decision IR. Z3 decides;
`ir/decide.py` and `ir/fold.py`, which made the tables, are not used. Five lemmas:

0. *Form* (`form.py`): ids are valid, numbers fit, diagrams are functions, the vocabulary is
   complete.
1. *Addresses* (`addresses.py`): every address falls into the blocks it is in.
2. *Placement* (`placement.py`): every endpoint is in its row and columns. For the bundle of a node,
   every endpoint is in its columns, and the node's own endpoints are in their rows.
3. *Cells* (`cells.py`): every cell agrees with the policies, for every service.
4. *Unseen signatures* (`unseen.py`, `entries.py`): the tables and rule entries that the node folds mean
   the policies.

Lemmas 0 to 3 give equality on the universe's endpoints and every address. Lemma 4 extends it to
endpoints that appear later. Trusted: Z3, the reading of services and prefixes in `terms.py`, the
renaming of ports in `port_order.py`, and that the datapath reads a packet's fields correctly.
"""

from collections.abc import Container, Iterator

from policyc.ir.decision import DecisionIR
from policyc.ir.policy import PolicySet
from policyc.ir.universe import Universe
from policyc.verifier.decision.addresses import address_obligations
from policyc.verifier.decision.cells import CellLemma
from policyc.verifier.decision.entries import entry_faults
from policyc.verifier.decision.form import form_faults
from policyc.verifier.decision.outcome import (
    Broken,
    Ledger,
    Obligation,
    Outcome,
    discharge,
)
from policyc.verifier.decision.placement import placement_faults
from policyc.verifier.decision.unseen import unseen_obligations


def prove_decision(
    policies: PolicySet,
    universe: Universe | None,
    decision: DecisionIR,
    subjects: Container[str] | None = None,
    ledger: Ledger | None = None,
) -> Outcome:
    """Proved, Refuted at the first obligation that fails, or Undecided.

    `subjects`: the pods (qualified names) that have rows in the decision, None for all. Questions in
    `ledger` are not solved again.
    """
    return discharge(_obligations(policies, universe, decision, subjects), ledger)


def _obligations(
    policies: PolicySet,
    universe: Universe | None,
    decision: DecisionIR,
    subjects: Container[str] | None,
) -> Iterator[Obligation | Broken]:
    yield from form_faults(policies, decision)
    yield from address_obligations(decision)
    if universe is not None:
        yield from placement_faults(universe, decision, subjects)
    yield from CellLemma(policies, decision).obligations()
    yield from unseen_obligations(policies, decision)
    yield from entry_faults(policies, decision)
