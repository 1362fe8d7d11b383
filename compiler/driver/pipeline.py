# SPDX-License-Identifier: Apache-2.0
"""The stages in order: Policy IR, atoms, Decision IR, proof, plan, C and seeds."""

from dataclasses import dataclass

from policyc.backends.ebpf_c.emit import emit_c
from policyc.backends.ebpf_c.layout import MEASURED, Budgets, choose_layout
from policyc.backends.ebpf_c.seeds import Seed, make_seeds
from policyc.ir.atoms import Atoms, partition
from policyc.ir.decide import decide
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import InternalError
from policyc.ir.plan import LookupPlan, fits
from policyc.ir.policy import Network, PolicySet
from policyc.ir.universe import Universe
from policyc.ir.vocabulary import vocabulary_of


@dataclass(frozen=True)
class Decided:
    """A policy set, what it is decided over, and the decisions."""

    policies: PolicySet
    universe: Universe | None
    atoms: Atoms
    decision: DecisionIR


@dataclass(frozen=True)
class Emitted:
    """The target's part: plan, C and seeds."""

    plan: LookupPlan
    c: str
    seeds: tuple[Seed, ...]


def decide_all(
    policies: PolicySet, universe: Universe | None, pod_networks: tuple[Network, ...] = ()
) -> Decided:
    """Front half: from the Policy IR to the Decision IR. Without a universe, signatures alone."""
    atoms = partition(vocabulary_of(policies), universe, pod_networks)
    return Decided(policies, universe, atoms, decide(policies, atoms))


def emit_all(decision: DecisionIR, budgets: Budgets = MEASURED) -> Emitted:
    """Back half: from the Decision IR to C and seeds."""
    plan = choose_layout(decision, budgets)
    if not fits(decision, plan):
        raise InternalError("the lookup plan has no room for the Decision IR")
    return Emitted(plan, emit_c(decision, plan), make_seeds(decision, plan))
