# SPDX-License-Identifier: Apache-2.0
"""The only module of the lemmas that calls a solver: bitwuzla, Z3, or both, which must agree.

A model is never trusted: `evaluation.py`, which uses no solver, evaluates the goal under it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any

from policyc.ir.errors import HostError, InternalError
from policyc.verifier.bytecode.evaluation import evaluate, known
from policyc.verifier.bytecode.lowering import BitwuzlaLanguage, Lowering, Z3Language
from policyc.verifier.bytecode.nodes import VARIABLE, Node, below, variables
from policyc.verifier.bytecode.values import Truth
from policyc.verifier.smt.lazy_z3 import z3
from policyc.verifier.smt.solver_choice import Choice

LIMIT_MS, WHOLE_LIMIT_MS = 120_000, 60_000
"""Time limits of a goal and a solver; the second if the goal has cases. Most take milliseconds.

The hardest whole goals take 10 s, and their cases twice as long. Solvers count the time of the clock,
so the limit leaves room for a busy machine.
"""

Model = Mapping[Node, int]
"""The values of variables; truths as 0 and 1. A variable that is missing may have any value."""


class UndecidedError(Exception):
    """No solver could decide."""


@dataclass
class Solving:
    """Goals are truths; terms that were lowered for one are reused for the next.

    Times in milliseconds.
    """

    choice: Choice = Choice.BITWUZLA
    limit_ms: int = LIMIT_MS
    n_asked: int = 0
    _never: set[Node] = field(default_factory=set)
    _lowered: dict[Choice, Lowering] = field(default_factory=dict)

    def model(self, goal: Truth) -> Model | None:
        """The values of variables for which the goal holds; None if it never holds.

        Raises `UndecidedError`, InternalError if two solvers disagree or a model is wrong, HostError if
        a solver is not installed.
        """
        if not isinstance(goal, Node):
            return {} if goal else None
        if goal in self._never:
            return None
        self.n_asked += 1
        asked = (Choice.BITWUZLA, Choice.Z3) if self.choice is Choice.BOTH else (self.choice,)
        names = variables(goal)
        models = [_ASK[each](self, goal, names) for each in asked]
        if (None in models) != all(model is None for model in models):
            raise InternalError("the solvers disagree on one goal, so neither is believed")
        for model in models:
            if model is not None and holding(model, [goal]) != [True]:
                raise InternalError("a solver's model is none")
        if models[0] is None:
            self._never.add(goal)
        return models[0]

    def lower(self, solver: Choice, make: Callable[[], Any]) -> Lowering:
        """The goals' terms in a solver's language."""
        if solver not in self._lowered:
            self._lowered[solver] = Lowering(make())
        return self._lowered[solver]

    @cached_property
    def bitwuzla(self) -> Any:
        """The bitwuzla module. HostError if it is not installed."""
        try:
            return import_module("bitwuzla")
        except ImportError as missing:
            hint = "pip install bitwuzla, or --solver z3"
            raise HostError("bitwuzla is not installed", hint) from missing


def holding(model: Model, truths: Sequence[Truth]) -> list[bool]:
    """For each truth, whether it holds under a model; variables outside the model are 0."""
    nodes = below(*(each for each in truths if isinstance(each, Node)))
    values = {node: 0 for node in nodes if node.op is VARIABLE}
    values.update(model)
    evaluate(nodes, values)
    return [bool(known(each, values)) for each in truths]


def _ask_bitwuzla(solving: Solving, goal: Node, names: list[Node]) -> Model | None:
    bitwuzla = solving.bitwuzla
    lower = solving.lower(Choice.BITWUZLA, lambda: BitwuzlaLanguage(bitwuzla))
    language = lower.language
    assert isinstance(language, BitwuzlaLanguage), "it was made so"
    options = bitwuzla.Options()
    options.set(bitwuzla.Option.PRODUCE_MODELS, True)
    options.set(bitwuzla.Option.TIME_LIMIT_PER, solving.limit_ms)
    solver = bitwuzla.Bitwuzla(language.manager, options)
    solver.assert_formula(lower(goal))
    answer = solver.check_sat()
    if answer == bitwuzla.Result.UNSAT:
        return None
    if answer != bitwuzla.Result.SAT:
        raise UndecidedError("bitwuzla gave up")
    values = ((name, solver.get_value(lower(name))) for name in names)
    return {
        name: int(value.value(10)) if name.width else int(value.is_true()) for name, value in values
    }


def _ask_z3(solving: Solving, goal: Node, names: list[Node]) -> Model | None:
    lower = solving.lower(Choice.Z3, Z3Language)
    solver = z3.SolverFor("QF_BV")
    solver.set("timeout", solving.limit_ms)
    solver.add(lower(goal))
    answer = solver.check()
    if answer == z3.unsat:
        return None
    if answer != z3.sat:
        raise UndecidedError(f"Z3 gave up: {solver.reason_unknown()}")
    model = solver.model()
    values = ((name, model.eval(lower(name), model_completion=True)) for name in names)
    return {
        name: value.as_long() if name.width else int(z3.is_true(value)) for name, value in values
    }


_ASK: Mapping[Choice, Callable[[Solving, Node, list[Node]], Model | None]] = {
    Choice.BITWUZLA: _ask_bitwuzla,
    Choice.Z3: _ask_z3,
}
