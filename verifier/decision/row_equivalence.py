# SPDX-License-Identifier: Apache-2.0
"""Prove some rows of a Decision IR whose other rows were proved before (`equivalence.py`)."""

from collections.abc import Collection, Iterator, Sequence

from policyc.ir.atoms import Row
from policyc.ir.bits import union
from policyc.ir.decision import DecisionIR
from policyc.ir.policy import PolicySet
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
from policyc.verifier.decision.unseen import unseen_obligations


def prove_rows(policies: PolicySet, decision: DecisionIR, ledger: Ledger | None = None) -> Outcome:
    """Proved, Refuted at the first obligation that fails, or Undecided.

    `decision` has the rows that some changed policies select, before or after the change. `policies` are
    all policies that select any of these rows: no other can matter to a row. The addresses, the columns
    and the places of endpoints are those of the decision that was proved, and so is the vocabulary.
    """
    return discharge(_obligations(policies, decision), ledger)


def is_all_that_matters(
    rows: Sequence[Row],
    before: Sequence[int],
    now: Sequence[int],
    changed: Collection[int],
    chosen: tuple[Collection[int], Collection[int]],
) -> bool:
    """Whether the chosen (rows, policies) are all that the changed policies can matter to.

    `before` and `now` are the subjects' bits of all policies. `changed` are the policies whose text
    changed; policies whose subject changed are among them.
    """
    chosen_rows, chosen_policies = map(frozenset, chosen)
    moved = {at for at, (one, other) in enumerate(zip(before, now, strict=True)) if one != other}
    touched = {bit for at in changed for bit in (before[at], now[at])}
    for at, row in enumerate(rows):
        if at not in chosen_rows and any(row.bits >> bit & 1 for bit in touched):
            return False
    held = union(rows[at].bits for at in chosen_rows)
    selecting = {at for at, bit in enumerate(now) if held >> bit & 1}
    return moved <= set(changed) and chosen_policies == selecting | set(changed)


def _obligations(policies: PolicySet, decision: DecisionIR) -> Iterator[Obligation | Broken]:
    yield from form_faults(policies, decision, is_partition_known=True)
    yield from CellLemma(policies, decision).obligations()
    yield from unseen_obligations(policies, decision)
    yield from entry_faults(policies, decision)
