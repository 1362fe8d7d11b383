# SPDX-License-Identifier: Apache-2.0
"""The back half of the pipeline: from the Decision IR to plan, C and seeds."""

from policyc.backends.ebpf_c.emit import emit_c
from policyc.backends.ebpf_c.frames import MEASURED, Budgets
from policyc.backends.ebpf_c.layout import Layout, explained_layout
from policyc.backends.ebpf_c.seeds import CONNECT_SEED, Seed, make_seeds
from policyc.compiler.driver.compile.target import (
    DEFAULT_TARGET,
    Target,
)
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import InternalError
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.plan import LookupPlan, fits


@dataclass(frozen=True)
class Emitted:
    """The target's part: layout, C and seeds.

    The C is for readers in either case; if LLVM compiles, its source is the Decision IR.
    """

    layout: Layout
    c: str
    seeds: tuple[Seed, ...]
    target: Target = DEFAULT_TARGET

    @property
    def plan(self) -> LookupPlan:
        """The layouts and their sizes."""
        return self.layout.plan


def emit_all(
    decision: DecisionIR, budgets: Budgets = MEASURED, target: Target = DEFAULT_TARGET
) -> Emitted:
    """Lay a Decision IR out, and make its C and seeds."""
    layout = explained_layout(decision, budgets, target.counters)
    plan = layout.plan
    if not fits(decision, plan):
        raise InternalError("the lookup plan has no room for the Decision IR")
    seeds = (*make_seeds(decision, plan, layout.verdicts), *connect_seeds(target))
    return Emitted(
        layout, emit_c(decision, plan, layout.verdicts, target.at_sockets), seeds, target
    )


def connect_seeds(target: Target) -> tuple[Seed, ...]:
    """The maps of the hooks at connect(), if the program has them."""
    return (CONNECT_SEED,) if target.at_sockets else ()
