# SPDX-License-Identifier: Apache-2.0
"""Goals are decided by one solver or by two that agree; a model that is none is not believed."""

import pytest

from policyc.ir.errors import InternalError
from policyc.verifier.bytecode.nodes import Node
from policyc.verifier.bytecode.substitution import Substitution
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Cmp, Op
from policyc.verifier.smt.solver_choice import Choice
from policyc.verifier.translation import solving
from policyc.verifier.translation.inputs import Inputs, Spot
from policyc.verifier.translation.solving import Model, Solving, UndecidedError, holding
from policyc.verifier.translation.sweeping import products_as_one, sweep

D = TermDomain()
X, Y = (D.variable(name, 32) for name in "xy")
SEMIPRIME = 13452398471239847213 * 16723498712345678941
"""No solver finds its factors within minutes, however late a time limit of 1 ms is noticed."""


def product(one: Node, other: Node) -> Node:
    found = D.binary(Op.MUL, one, other, 32)
    assert isinstance(found, Node)
    return found


@pytest.mark.parametrize("choice", Choice)
def test_satisfiable_terms_have_a_model_and_unsatisfiable_ones_none(choice: Choice) -> None:
    ask = Solving(choice)
    goal = D.all_of((D.equal(product(X, Y), 35, 32), D.equal(D.binary(Op.AND, X, 0xFF, 32), 5, 32)))
    model = ask.model(goal)
    assert model is not None and holding(model, [goal]) == [True]
    odd = D.equal(D.truncate(product(X, D.binary(Op.SHL, Y, 1, 32)), 1, 32), 1, 1)
    assert ask.model(odd) is None
    assert ask.model(True) == {} and ask.model(False) is None


def test_a_known_answer_needs_no_query() -> None:
    ask = Solving()
    never = D.both(D.equal(product(X, X), 3, 32), D.no(D.equal(X, 0, 32)))
    assert ask.model(never) is None and ask.n_asked == 1
    assert ask.model(never) is None and ask.model(True) == {} and ask.n_asked == 1


def test_solvers_that_disagree_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(asked: Solving, goal: Node, names: list[Node]) -> Model | None:
        return None

    monkeypatch.setattr(solving, "_ASK", {**solving._ASK, Choice.BITWUZLA: wrong})
    with pytest.raises(InternalError, match="disagree"):
        Solving(Choice.BOTH).model(D.equal(X, 3, 32))


def test_a_false_model_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(asked: Solving, goal: Node, names: list[Node]) -> Model | None:
        return dict.fromkeys(names, 0)

    monkeypatch.setattr(solving, "_ASK", {Choice.Z3: wrong})
    with pytest.raises(InternalError, match="model"):
        Solving(Choice.Z3).model(D.equal(X, 3, 32))


@pytest.mark.parametrize("choice", [Choice.Z3, Choice.BITWUZLA])
def test_a_solver_without_time_is_undecided(choice: Choice) -> None:
    factors = [D.variable(name, 64) for name in ("factor", "other factor")]
    one, other = (D.zero_extend(each, 64, 128) for each in factors)
    hard = D.all_of(
        (
            D.equal(D.binary(Op.MUL, one, other, 128), SEMIPRIME, 128),
            D.compare(Cmp.ULT, factors[0], factors[1], 64),
            D.compare(Cmp.ULT, 1, factors[0], 64),
        )
    )
    with pytest.raises(UndecidedError):
        Solving(choice, limit_ms=1).model(hard)


def test_terms_that_are_the_same_for_every_flow_become_one() -> None:
    one = D.choose(D.equal(X, 6, 32), 1 << 16, D.choose(D.equal(X, 17, 32), 2 << 16, X, 32), 32)
    other = D.choose(D.equal(X, 17, 32), 2 << 16, D.choose(D.equal(X, 6, 32), 1 << 16, X, 32), 32)
    another = D.choose(D.equal(X, 17, 32), 2 << 16, D.choose(D.equal(X, 6, 32), 3 << 16, X, 32), 32)
    assert isinstance(one, Node) and isinstance(other, Node) and isinstance(another, Node)
    now, inputs = Substitution(D), Inputs()
    inputs.take_hints(
        [each for each in (D.equal(X, 6, 32), D.equal(X, 17, 32)) if isinstance(each, Node)]
    )
    assert sweep(D, [one, other, another], now, inputs, Solving(), ()) == 1
    assert now(other) is now(one) and now(another) is not now(one)


def test_products_of_the_same_factors_become_one() -> None:
    condition = D.equal(Y, 0, 32)
    factor = D.choose(condition, D.binary(Op.ADD, X, 9, 32), X, 32)
    mine, theirs = (
        product(X, D.variable("z", 32)),
        D.binary(Op.MUL, factor, D.variable("z", 32), 32),
    )
    differ = D.no(D.equal(mine, theirs, 32))
    guard = D.no(condition)
    assert products_as_one(D, differ, guard, Inputs(), Solving()) is False
    assert products_as_one(D, differ, True, Inputs(), Solving()) is differ


def test_a_table_has_one_word_under_a_key() -> None:
    inputs = Inputs()
    key, found, again = D.variable("key", 32), D.variable("found", 32), D.variable("again", 32)
    inputs.learn(found, Spot("pc_nodes", key, 4))
    inputs.learn(again, Spot("pc_nodes", D.binary(Op.XOR, D.binary(Op.XOR, key, 5, 32), 5, 32), 4))
    assert not inputs.reach(D.no(D.equal(found, again, 32)))
    other = D.variable("other", 32)
    inputs.learn(other, Spot("pc_nodes", key, 8))
    assert inputs.reach(D.no(D.equal(found, other, 32)))
