# SPDX-License-Identifier: Apache-2.0
"""Prove some rows of a Decision IR, of which all else was proved before (`equivalence.py`)."""

from collections.abc import Iterator

from policyc.ir.decision import DecisionIR
from policyc.ir.policy import PolicySet
from policyc.verifier.cells import CellLemma
from policyc.verifier.entries import entry_faults
from policyc.verifier.form import form_faults
from policyc.verifier.outcome import Broken, Ledger, Obligation, Outcome, discharge
from policyc.verifier.unseen import unseen_obligations


def prove_rows(policies: PolicySet, decision: DecisionIR, ledger: Ledger | None = None) -> Outcome:
    """Proved, Refuted at the first obligation that fails, or Undecided.

    `decision` has the rows that some changed policies select, before or after the change, and `policies`
    all that select any of them: no other can matter to a row. The addresses, the columns and the places
    of endpoints are those of the decision that was proved, as the vocabulary is.
    """
    return discharge(_obligations(policies, decision), ledger)


def _obligations(policies: PolicySet, decision: DecisionIR) -> Iterator[Obligation | Broken]:
    yield from form_faults(policies, decision, is_partition_known=True)
    yield from CellLemma(policies, decision).obligations()
    yield from unseen_obligations(policies, decision)
    yield from entry_faults(policies, decision)
