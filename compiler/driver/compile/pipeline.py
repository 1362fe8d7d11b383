# SPDX-License-Identifier: Apache-2.0
"""The front half of the pipeline: from the Policy IR through atoms to the Decision IR."""

from dataclasses import dataclass

from policyc.ir.atoms import Atoms
from policyc.ir.decide import decide
from policyc.ir.decision import DecisionIR
from policyc.ir.partition import partition
from policyc.ir.policy import Network, PolicySet
from policyc.ir.restrict import restrict, restricted_atoms, rows_of
from policyc.ir.universe import Universe
from policyc.ir.vocabulary import vocabulary_of


@dataclass(frozen=True)
class Decided:
    """A policy set, its partition, and the decisions."""

    policies: PolicySet
    universe: Universe | None
    atoms: Atoms
    decision: DecisionIR


def decide_all(
    policies: PolicySet,
    universe: Universe | None,
    pod_networks: tuple[Network, ...] = (),
    subjects: frozenset[str] | None = None,
) -> Decided:
    """From the Policy IR to the Decision IR. Without a universe, signatures alone.

    If `subjects` (qualified names of pods) are given, only their rows are included. If rules make notes,
    all rows are decided, because ids with notes are made for the rows that need them.
    """
    atoms = partition(vocabulary_of(policies), universe, pod_networks)
    if universe is None or subjects is None:
        return Decided(policies, universe, atoms, decide(policies, atoms))
    rows = rows_of(atoms, (e for e in universe.endpoints if e.qualified_name in subjects))
    if makes_notes(policies):
        decision = restrict(decide(policies, atoms), rows, subjects)
        return Decided(policies, universe, decision.atoms, decision)
    local = restricted_atoms(atoms, rows, subjects)
    decision = decide(policies, local, atoms.rows)
    decision = restrict(decision, tuple(range(len(rows))), subjects)  # only for its numbers
    return Decided(policies, universe, decision.atoms, decision)


def makes_notes(policies: PolicySet) -> bool:
    """Whether a rule makes notes of flows that it does not decide."""
    return any(
        rule.makes_note
        for tier in policies.tiers
        for policy in tier.policies
        for rule in (*policy.ingress, *policy.egress)
    )
