# SPDX-License-Identifier: Apache-2.0
"""What rewriting makes of terms: equal ones are one object, and what is known vanishes."""

from policyc.verifier.bytecode.nodes import CONCAT, EQ, ITE, ULT, variables
from policyc.verifier.bytecode.substitution import Substitution
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.term_truths import reduced
from policyc.verifier.bytecode.values import Cmp, Op

D = TermDomain()
X, Y = (D.variable(name, 32) for name in "xy")
P, Q, R = (D.truth(name) for name in "pqr")


def test_equal_terms_are_one_object() -> None:
    assert D.variable("x", 32) is X
    assert D.binary(Op.ADD, X, Y, 32) is D.binary(Op.ADD, Y, X, 32)
    assert D.both(P, Q) is D.both(Q, P)
    assert D.no(D.no(P)) is P


def test_a_condition_and_its_negation_cancel() -> None:
    assert D.both(P, D.no(P)) is False
    assert D.either(P, D.no(P)) is True
    assert D.either(D.both(P, Q), D.both(P, D.no(Q))) is P
    assert D.both(P, D.either(P, Q)) is P
    assert D.both(P, D.no(D.both(P, Q))) is D.both(P, D.no(Q))
    assert D.both(D.equal(X, 1, 32), D.equal(X, 2, 32)) is False
    assert D.both(D.equal(X, 1, 32), D.no(D.equal(X, 2, 32))) is D.equal(X, 1, 32)


def test_comparing_a_choice_of_numbers_gives_its_condition() -> None:
    chosen = D.choose(P, 3, 5, 32)
    assert D.equal(chosen, 3, 32) is P
    assert D.equal(chosen, 5, 32) is D.no(P)
    assert D.equal(chosen, 4, 32) is False
    assert D.compare(Cmp.ULT, chosen, 4, 32) is P
    assert D.equal(D.choose(P, X, 5, 32), 6, 32) is D.both(P, D.equal(X, 6, 32))


def test_a_choice_between_equal_terms_is_the_term() -> None:
    assert D.choose(P, X, X, 32) is X
    assert D.choose(P, D.choose(P, X, Y, 32), Y, 32) is D.choose(P, X, Y, 32)
    assert D.choose(P, X, D.choose(Q, X, Y, 32), 32) is D.choose(D.either(P, Q), X, Y, 32)
    assert D.choose(D.no(P), X, Y, 32) is D.choose(P, Y, X, 32)


def test_operations_use_the_narrowest_width() -> None:
    wide = D.zero_extend(X, 32, 64)
    total = D.binary(Op.ADD, wide, 1, 64)
    assert not isinstance(total, int) and total.op is CONCAT
    assert total.args[1] == 33
    assert D.truncate(total, 32, 64) is D.binary(Op.ADD, X, 1, 32)
    chosen = D.choose(P, wide, 7, 64)
    assert D.truncate(chosen, 32, 64) is D.choose(P, X, 7, 32)
    assert D.extract(chosen, 32, 32, 64) == 0


def test_masks_and_shifts_are_parts() -> None:
    low = D.truncate(X, 8, 32)
    assert D.binary(Op.AND, X, 0xFF, 32) is D.zero_extend(low, 8, 32)
    assert D.binary(Op.SHL, D.binary(Op.LSHR, X, 8, 32), 8, 32) is D.binary(
        Op.AND, X, ~0xFF & 0xFFFFFFFF, 32
    )
    assert D.binary(Op.MUL, X, 4, 32) is D.binary(Op.SHL, X, 2, 32)
    bit = D.equal(D.binary(Op.AND, X, 1 << 31, 32), 1 << 31, 32)
    assert bit is D.compare(Cmp.SLT, X, 0, 32)
    assert D.no(bit) is D.compare(Cmp.ULT, X, 1 << 31, 32)


def test_equivalent_comparisons_are_one_term() -> None:
    assert D.compare(Cmp.ULT, 5, X, 32) is D.no(D.compare(Cmp.ULT, X, 6, 32))
    assert D.compare(Cmp.ULE, X, 5, 32) is D.compare(Cmp.ULT, X, 6, 32)
    assert D.compare(Cmp.ULT, X, 1, 32) is D.equal(X, 0, 32)
    both = D.zero_extend(X, 32, 64), D.zero_extend(Y, 32, 64)
    assert D.compare(Cmp.ULT, *both, 64) is D.compare(Cmp.ULT, X, Y, 32)


def test_parts_of_a_conjunction_simplify_each_other() -> None:
    is_three = D.equal(X, 3, 32)
    chosen = D.choose(D.compare(Cmp.ULT, X, 4, 32), Y, 0, 32)
    assert reduced(D, D.both(is_three, D.equal(chosen, 9, 32))) is D.both(
        is_three, D.equal(Y, 9, 32)
    )
    guarded = D.all_of((P, D.no(D.all_of((Q, R))), D.either(D.both(P, Q), R)))
    assert reduced(D, D.both(guarded, D.no(Q))) is D.all_of((P, D.no(Q), R))
    assert reduced(D, D.both(D.no(P), D.either(P, Q))) is D.both(D.no(P), Q)


def test_substitution_of_a_variable() -> None:
    term = D.choose(D.compare(Cmp.ULT, X, Y, 32), X, 0, 32)
    assert not isinstance(term, int) and term.op is ITE
    assert Substitution(D, {X: 4})(term) is D.choose(D.compare(Cmp.ULT, 4, Y, 32), 4, 0, 32)
    assert Substitution(D, {X: 4, Y: 3})(term) == 0
    now = Substitution(D)
    assert now(term) is term
    assert [str(each) for each in variables(term)] in (["x", "y"], ["y", "x"])


def test_operations_have_the_width_of_what_is_compared() -> None:
    for truth, op in ((D.compare(Cmp.ULT, X, Y, 32), ULT), (D.equal(X, Y, 32), EQ)):
        assert not isinstance(truth, bool) and truth.op is op
        assert (truth.width, truth.of_width) == (0, 32)
