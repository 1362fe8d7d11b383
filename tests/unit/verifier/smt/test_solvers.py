# SPDX-License-Identifier: Apache-2.0
"""Two solvers behind one door: they agree on random goals; where they do not, none is believed."""

import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest
import z3

from policyc.ir.errors import HostError, InternalError
from policyc.verifier.smt.smt_text import (
    has_strings,
    smt_text,
    without_single_parts,
)
from policyc.verifier.smt.solvers import (
    SOLVERS,
    TIMED_OUT,
    Answer,
    Choice,
    Solve,
    SolverAnswer,
    decide,
    solve_bitwuzla,
    solve_z3,
)
from tests.property.length import examples

X, Y = z3.BitVecs("x y", 32)
A, B = z3.BitVecs("a b", 64)
SAT = [z3.ULT(X, Y), z3.UGT(X, 5)]
UNSAT = [z3.ULT(X, Y), z3.ULT(Y, X)]
HARD = [
    z3.ZeroExt(64, A) * z3.ZeroExt(64, B) == 13452398471239847213 * 16723498712345678941,
    z3.UGT(A, 1),
    z3.ULT(A, B),
]
"""The factors of a semiprime: no solver finds them within minutes."""


def says(solver: str, answer: Answer, reason: str = "") -> Solve:
    def solve(assertions: Sequence[Any], limit_ms: int | None) -> SolverAnswer:
        return SolverAnswer(solver, "0", answer, reason)

    return solve


@pytest.mark.parametrize("choice", Choice)
def test_each_solver_choice_decides_sat_and_unsat(choice: Choice) -> None:
    assert decide(UNSAT, choice).answer is Answer.UNSAT
    found = decide(SAT, choice)
    assert found.answer is Answer.SAT
    assert z3.is_true(found.model.eval(z3.And(*SAT), model_completion=True))
    assert decide([], choice).answer is Answer.SAT


def test_answers_name_their_solver() -> None:
    both = decide(UNSAT, Choice.BOTH).answers
    assert [each.solver for each in both] == ["z3", "bitwuzla"]
    assert all(each.version[0].isdigit() for each in both)
    assert [each.solver for each in decide(UNSAT, Choice.BITWUZLA).answers] == ["bitwuzla"]


@pytest.mark.parametrize("choice", Choice)
def test_a_time_limit_is_unknown_and_never_an_answer(choice: Choice) -> None:
    start = time.monotonic()
    found = decide(HARD, choice, limit_ms=200)
    assert time.monotonic() - start < 20
    assert found.answer is Answer.UNKNOWN
    assert found.model is None
    assert found.reason.count(TIMED_OUT) == len(found.answers)


def test_bitwuzla_leaves_strings_undecided() -> None:
    text = z3.String("text")
    goal = [text == "a", text == "b"]
    assert decide(goal).answer is Answer.UNSAT
    for choice in (Choice.BITWUZLA, Choice.BOTH):
        found = decide(goal, choice)
        assert found.answer is Answer.UNKNOWN
        assert found.reason == "undecided by bitwuzla: it does not know strings"
    found = decide([text == "a"], Choice.BOTH)
    assert found.answer is Answer.SAT
    assert found.model[text].as_string() == "a"


@pytest.mark.parametrize(("one", "other"), [(Answer.SAT, Answer.UNSAT), (Answer.UNSAT, Answer.SAT)])
def test_solvers_that_disagree_stop_the_run(one: Answer, other: Answer) -> None:
    solvers = {Choice.Z3: says("z3", one), Choice.BITWUZLA: says("bitwuzla", other)}
    words = f"z3 0: {one.value}; bitwuzla 0: {other.value}"
    with pytest.raises(InternalError, match=words):
        decide(SAT, Choice.BOTH, solvers=solvers)


def test_a_wrong_answer_of_the_second_solver_is_an_error() -> None:
    for goal, lie in ((SAT, Answer.UNSAT), (UNSAT, Answer.SAT)):
        solvers = {**SOLVERS, Choice.BITWUZLA: says("liar", lie)}
        with pytest.raises(InternalError, match="disagree"):
            decide(goal, Choice.BOTH, solvers=solvers)
    solvers = {**SOLVERS, Choice.BITWUZLA: says("liar", Answer.SAT)}
    with pytest.raises(InternalError, match="disagree"):  # Z3 has no model
        decide(UNSAT, Choice.BITWUZLA, solvers=solvers)


@pytest.mark.parametrize("known", [Answer.SAT, Answer.UNSAT])
def test_an_undecided_solver_does_not_confirm(known: Answer) -> None:
    gave_up = says("bitwuzla", Answer.UNKNOWN, "tired")
    found = decide(
        SAT, Choice.BOTH, solvers={Choice.Z3: says("z3", known), Choice.BITWUZLA: gave_up}
    )
    expected = Answer.SAT if known is Answer.SAT else Answer.UNKNOWN
    assert found.answer is expected
    assert found.reason == ("" if known is Answer.SAT else "undecided by bitwuzla: tired")


def test_a_missing_bitwuzla_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitwuzla", None)
    with pytest.raises(HostError, match="not installed"):
        decide(SAT, Choice.BOTH)


def test_bitwuzla_answers_unknown_to_unsupported_terms() -> None:
    number = z3.Int("number")
    found = solve_bitwuzla([number > 3], None)
    assert found.answer is Answer.UNKNOWN
    assert "it does not take the goal" in found.reason
    assert solve_z3([number > 3], None).answer is Answer.SAT


def test_single_parts_are_written_as_they_are() -> None:
    parts = [z3.And(z3.Or(z3.And(X == 1))), z3.Or(Y == 2), z3.And(), z3.Xor(X == 1, Y == 2)]
    assert decide(parts, Choice.BOTH).answer is Answer.UNSAT
    assert without_single_parts("(assert (and (or |a b|)))") == "( assert |a b| )"
    assert without_single_parts("(and x y) ; (and x)\n(or (and))") == "( and x y ) ( and )"
    assert (
        without_single_parts("(assert (or and (not or)))") == "( assert ( or true ( not false ) ) )"
    )
    assert without_single_parts('(= "(and" (and "x;"))') == '( = "(and" "x;" )'


def test_names_that_look_like_strings_are_none() -> None:
    odd = z3.BitVec("str.len of String (and", 8)
    text = smt_text([odd == 3])
    assert not has_strings(text)
    assert decide([odd == 3, odd == 4], Choice.BOTH).answer is Answer.UNSAT
    assert has_strings(smt_text([z3.Length(z3.String("s")) == 1]))


def random_term(rng: random.Random, depth: int) -> Any:
    if depth == 0:
        return rng.choice((X, Y, z3.BitVecVal(rng.randrange(8), 32)))
    one, other = random_term(rng, depth - 1), random_term(rng, depth - 1)
    return rng.choice(
        (
            lambda: one + other,
            lambda: one & other,
            lambda: one ^ other,
            lambda: z3.LShR(one, other),
            lambda: z3.If(z3.ULT(one, other), one, other),
            lambda: z3.ZeroExt(16, z3.Extract(15, 0, one)),
        )
    )()


def random_goal(rng: random.Random, depth: int) -> Any:
    if depth == 0:
        one, other = random_term(rng, 2), random_term(rng, 2)
        return rng.choice((one == other, z3.ULE(one, other), one < other))
    parts = [random_goal(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    return rng.choice((z3.And(*parts), z3.Or(*parts), z3.Not(parts[0])))


def test_the_solvers_agree_on_random_goals() -> None:
    seen = set()
    for seed in range(examples(150)):
        rng = random.Random(seed)
        goal = [random_goal(rng, 3) for _ in range(rng.randint(1, 4))]
        found = decide(goal, Choice.BOTH)  # raises where they disagree
        assert found.answer is not Answer.UNKNOWN
        if found.answer is Answer.SAT:
            assert z3.is_true(found.model.eval(z3.And(*goal), model_completion=True)), seed
        seen.add(found.answer)
    assert seen == {Answer.SAT, Answer.UNSAT}
