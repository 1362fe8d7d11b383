# SPDX-License-Identifier: Apache-2.0
"""What the proof says of a program or of seeds: proved, refuted by a lemma, or nothing.

The unmodified program of a case is asked in the same words as a wrong one, so that a lemma that refutes
everything is found out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from policyc.backends.ebpf_c.seeds import Seed
from policyc.compiler.driver.compile.target import (
    HOOKS,
    Backend,
    Target,
)
from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.object import BpfObject, read_object
from policyc.verifier.translation.code_lemma import CodeLemma
from policyc.verifier.translation.planned_maps import map_claims
from policyc.verifier.translation.policy_runs import run_policy
from policyc.verifier.translation.shared_layouts import layout_faults
from tests.kernel.faults.witness import Witness, of_code, of_seeds
from tests.unit.verifier.translation.generations import Made

Lemma = Literal["layout", "maps", "code", "data"]


@dataclass(frozen=True)
class Proved:
    """Every lemma holds."""


@dataclass(frozen=True)
class Unmodelled:
    """The program has an instruction without a model: no lemma says anything about it."""

    instruction: str


@dataclass(frozen=True)
class Refuted:
    """The first lemma that fails, its claim, and flows that should show it."""

    lemma: Lemma
    claim: str
    witnesses: Iterable[Witness] = ()


Answer = Proved | Unmodelled | Refuted


@cache
def hooks() -> BpfObject:
    """The hooks of the release."""
    return read_object(Target(Backend.C).node_objects(None)[HOOKS])


def ask_program(case: Made, code: bytes) -> Answer:
    """Whether an object decides as the plan of the case says."""
    program = read_object(code)
    try:
        runs = run_policy(program)
    except UnmodelledError as unmodelled:
        return Unmodelled(str(unmodelled))
    apart = next(layout_faults(program, hooks()), None)
    if apart is not None:
        return Refuted("layout", apart)
    missing = next(map_claims(runs.program, case.plan), None)
    if missing is not None:
        return Refuted("maps", missing.what)
    lemma = CodeLemma(runs, case.plan, case.lemma().codes)
    try:
        failed = next(lemma.failed(), None)
    except UnmodelledError as unmodelled:
        return Unmodelled(str(unmodelled))
    if failed is None:
        return Proved()
    return Refuted("code", failed.claim.what, [of_code(lemma, failed)])


def ask_seeds(case: Made, seeds: Sequence[Seed]) -> Answer:
    """Whether seeds give what was decided in the case."""
    broken = next(case.lemma(seeds).faults(), None)
    if broken is None:
        return Proved()
    has_place = broken.direction is not None
    witnesses = list(of_seeds(read_object(case.object), case, broken)) if has_place else []
    return Refuted("data", broken.what, witnesses)
