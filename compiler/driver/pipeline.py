# SPDX-License-Identifier: Apache-2.0
"""The stages in order: Policy IR, atoms, Decision IR, proof, plan, C and seeds."""

from dataclasses import dataclass

from policyc.backends.ebpf_c.emit import emit_c
from policyc.backends.ebpf_c.frames import MEASURED, Budgets
from policyc.backends.ebpf_c.layout import Layout, explained_layout
from policyc.backends.ebpf_c.seeds import Seed, make_seeds
from policyc.compiler.driver.target import DEFAULT_TARGET, Target
from policyc.ir.atoms import Atoms
from policyc.ir.decide import decide
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import InternalError
from policyc.ir.partition import partition
from policyc.ir.plan import LookupPlan, fits
from policyc.ir.policy import Network, PolicySet
from policyc.ir.restrict import restrict, restricted_atoms, rows_of
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
    """The target's part: layout, C and seeds.

    The C is there for reading whoever compiles; where LLVM does, its source is the Decision IR.
    """

    layout: Layout
    c: str
    seeds: tuple[Seed, ...]
    target: Target = DEFAULT_TARGET

    @property
    def plan(self) -> LookupPlan:
        """What is where, and how large."""
        return self.layout.plan


def decide_all(
    policies: PolicySet,
    universe: Universe | None,
    pod_networks: tuple[Network, ...] = (),
    subjects: frozenset[str] | None = None,
) -> Decided:
    """Front half: from the Policy IR to the Decision IR. Without a universe, signatures alone.

    Where `subjects` are given (qualified names of pods), only their rows are decided.
    """
    atoms = partition(vocabulary_of(policies), universe, pod_networks)
    if universe is None or subjects is None:
        return Decided(policies, universe, atoms, decide(policies, atoms))
    rows = rows_of(atoms, (e for e in universe.endpoints if e.qualified_name in subjects))
    local = restricted_atoms(atoms, rows, subjects)
    decision = decide(policies, local, atoms.rows)
    decision = restrict(decision, tuple(range(len(rows))), subjects)  # for its numbers alone
    return Decided(policies, universe, decision.atoms, decision)


def emit_all(
    decision: DecisionIR, budgets: Budgets = MEASURED, target: Target = DEFAULT_TARGET
) -> Emitted:
    """Back half: from the Decision IR to C and seeds."""
    layout = explained_layout(decision, budgets, target.counters)
    plan = layout.plan
    if not fits(decision, plan):
        raise InternalError("the lookup plan has no room for the Decision IR")
    seeds = make_seeds(decision, plan, layout.verdicts)
    return Emitted(layout, emit_c(decision, plan, layout.verdicts), seeds, target)
