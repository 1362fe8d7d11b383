# SPDX-License-Identifier: Apache-2.0
"""One interface to the solvers: Z3, bitwuzla, or both, which must agree, decide a goal.

A goal is a list of Z3 assertions over Booleans and bit vectors; Z3 alone also takes strings. Witnesses
always come from Z3's model. Bitwuzla is the second opinion, and reads the goal as SMT-LIB text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib import metadata

import z3

from policyc.ir.errors import HostError, InternalError
from policyc.verifier.smt.smt_text import (
    has_strings,
    smt_text,
)
from policyc.verifier.smt.solver_choice import Choice as Choice
from policyc.verifier.smt.terms import Term

TIMED_OUT = "the time limit was reached"
_INTERRUPTED = "interrupted from keyboard"
_Z3_TIMEOUTS = ("timeout", "canceled")


class Answer(Enum):
    """A solver's answer on a goal."""

    SAT = "sat"
    UNSAT = "unsat"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """One solver's answer; `reason` says why it is unknown. `model` is Z3's, if it is sat."""

    solver: str
    version: str
    answer: Answer
    reason: str = ""
    model: Term = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.solver} {self.version}: {self.answer.value}{why}"


@dataclass(frozen=True, slots=True)
class Decision:
    """The combined answer of the solvers. They never disagree here: `decide` raises if they do."""

    answers: tuple[SolverAnswer, ...]

    @property
    def answer(self) -> Answer:
        """UNSAT if every solver says so; SAT if one does, as no other contradicts it."""
        said = {each.answer for each in self.answers}
        if said == {Answer.UNSAT}:
            return Answer.UNSAT
        return Answer.SAT if Answer.SAT in said else Answer.UNKNOWN

    @property
    def model(self) -> Term:
        """Z3's model; None if the goal is not sat, or Z3 did not find it so."""
        return next((each.model for each in self.answers if each.model is not None), None)

    @property
    def reason(self) -> str:
        """Why it is unknown, with the names of the solvers that gave up; empty otherwise."""
        gave_up = [each for each in self.answers if each.answer is Answer.UNKNOWN]
        if self.answer is not Answer.UNKNOWN:
            return ""
        return "; ".join(f"undecided by {each.solver}: {each.reason}" for each in gave_up)


Solve = Callable[[Sequence[Term], int | None], SolverAnswer]
"""Decides assertions within a number of milliseconds (None: without a limit)."""


def solve_z3(assertions: Sequence[Term], limit_ms: int | None) -> SolverAnswer:
    """Z3's answer, with a model if it is sat."""
    solver = _solver_for(assertions)
    if limit_ms is not None:
        solver.set("timeout", limit_ms)
    solver.add(*assertions)
    version = z3.get_version_string()
    try:
        result = solver.check()
    except z3.Z3Exception as failure:
        return SolverAnswer("z3", version, Answer.UNKNOWN, str(failure))
    if result == z3.sat:
        return SolverAnswer("z3", version, Answer.SAT, model=solver.model())
    if result == z3.unsat:
        return SolverAnswer("z3", version, Answer.UNSAT)
    reason = str(solver.reason_unknown())
    if _INTERRUPTED in reason:
        raise KeyboardInterrupt
    timed_out = limit_ms is not None and any(word in reason for word in _Z3_TIMEOUTS)
    return SolverAnswer("z3", version, Answer.UNKNOWN, TIMED_OUT if timed_out else reason)


def solve_bitwuzla(assertions: Sequence[Term], limit_ms: int | None) -> SolverAnswer:
    """Bitwuzla's answer. It does not support strings: then it is unknown, whatever Z3 answers."""
    try:
        import bitwuzla
    except ImportError as missing:
        hint = "pip install bitwuzla, or --solver z3"
        raise HostError("bitwuzla is not installed", hint) from missing
    version = metadata.version("bitwuzla")
    text = smt_text(assertions)
    if has_strings(text):
        return SolverAnswer("bitwuzla", version, Answer.UNKNOWN, "it does not know strings")
    options = bitwuzla.Options()
    if limit_ms is not None:
        options.set(bitwuzla.Option.TIME_LIMIT_PER, max(1, limit_ms))  # 0 would mean no limit
    try:
        parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
        parser.parse(text, True, False)
        result = parser.bitwuzla().check_sat()
    except bitwuzla.BitwuzlaException as failure:
        reason = f"it does not take the goal: {failure}"
        return SolverAnswer("bitwuzla", version, Answer.UNKNOWN, reason)
    if result == bitwuzla.Result.UNKNOWN:
        reason = "it gave up" if limit_ms is None else TIMED_OUT
        return SolverAnswer("bitwuzla", version, Answer.UNKNOWN, reason)
    is_sat = result == bitwuzla.Result.SAT
    return SolverAnswer("bitwuzla", version, Answer.SAT if is_sat else Answer.UNSAT)


SOLVERS: Mapping[Choice, Solve] = {Choice.Z3: solve_z3, Choice.BITWUZLA: solve_bitwuzla}


def versions_of(choice: Choice) -> tuple[tuple[str, str], ...]:
    """(name, version) of the solvers of a choice."""
    asked = (Choice.Z3, Choice.BITWUZLA) if choice is Choice.BOTH else (choice,)
    known = {
        Choice.Z3: lambda: str(z3.get_version_string()),
        Choice.BITWUZLA: lambda: metadata.version("bitwuzla"),
    }
    return tuple((each.value, known[each]()) for each in asked)


def decide(
    assertions: Sequence[Term],
    choice: Choice = Choice.Z3,
    limit_ms: int | None = None,
    solvers: Mapping[Choice, Solve] = SOLVERS,
) -> Decision:
    """Whether the assertions can hold together; each solver has its own limit of `limit_ms`.

    If only bitwuzla finds the goal sat, Z3 is called, too, for the model. Raises InternalError if one
    says sat and the other unsat, HostError if a solver is not installed.
    """
    asked = (Choice.Z3, Choice.BITWUZLA) if choice is Choice.BOTH else (choice,)
    answers = [solvers[each](assertions, limit_ms) for each in asked]
    if choice is Choice.BITWUZLA and answers[0].answer is Answer.SAT:
        answers.append(solvers[Choice.Z3](assertions, limit_ms))
    if {Answer.SAT, Answer.UNSAT} <= {each.answer for each in answers}:
        said = "; ".join(map(str, answers))
        raise InternalError(f"the solvers disagree on one goal, so neither is believed: {said}")
    return Decision(tuple(answers))


def _solver_for(assertions: Sequence[Term]) -> Term:
    """Z3's solver for bit vectors; if the goal has more (strings), the general one."""
    goal = z3.Goal()
    goal.add(*assertions)
    return z3.SolverFor("QF_BV") if z3.Probe("is-qfbv")(goal) else z3.SimpleSolver()
