# SPDX-License-Identifier: Apache-2.0
"""Numbers and Z3's terms: the same operation on the same operands gives the same number."""

from collections.abc import Callable
from typing import Any

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.ir.errors import InternalError
from policyc.verifier.bytecode.values import (
    NUMBERS,
    Bits,
    Cmp,
    Op,
    Truth,
    mask,
    number,
    signed,
)
from policyc.verifier.bytecode.z3_domain import Z3Domain

TERMS = Z3Domain()
EXAMPLES = settings(max_examples=300, deadline=None)
WIDTHS = st.integers(1, 64)


def values(width: int) -> st.SearchStrategy[int]:
    edges = st.sampled_from(
        [0, 1, mask(width), 1 << (width - 1), mask(width) >> 1, width & mask(width)]
    )
    return st.one_of(edges, st.integers(0, mask(width)))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[int, int, int]:
    width = draw(WIDTHS)
    return draw(values(width)), draw(values(width)), width


def of(term: Bits, width: int) -> int:
    """The number that a term is, where all in it is known."""
    if isinstance(term, int):
        return term
    found: Any = z3.simplify(term)
    assert found.size() == width
    return int(found.as_long())


def holds(term: Truth) -> bool:
    return term if isinstance(term, bool) else z3.is_true(z3.simplify(term))


def term(value: int, width: int) -> Any:
    """A number that the domain takes for something unknown."""
    return z3.BitVecVal(value, width)


PARTS = st.tuples(st.integers(0, mask(16)), st.integers(1, 16), st.booleans())
"""A number, its width, whether it is a term."""
MIXED = st.sampled_from([(True, True), (True, False), (False, True)])
"""Which of two operands is a term; where none is, the domain computes on numbers itself."""


@EXAMPLES
@given(op=st.sampled_from(Op), operands=pairs(), terms=MIXED)
def test_two_operands(op: Op, operands: tuple[int, int, int], terms: tuple[bool, bool]) -> None:
    a, b, width = operands
    left, right = term(a, width) if terms[0] else a, term(b, width) if terms[1] else b
    assert of(TERMS.binary(op, left, right, width), width) == NUMBERS.binary(op, a, b, width)
    assert TERMS.binary(op, a, b, width) == NUMBERS.binary(op, a, b, width)


@EXAMPLES
@given(cmp=st.sampled_from(Cmp), operands=pairs(), terms=MIXED)
def test_comparisons(cmp: Cmp, operands: tuple[int, int, int], terms: tuple[bool, bool]) -> None:
    a, b, width = operands
    left, right = term(a, width) if terms[0] else a, term(b, width) if terms[1] else b
    assert holds(TERMS.compare(cmp, left, right, width)) == NUMBERS.compare(cmp, a, b, width)


@EXAMPLES
@given(operands=pairs(), more=st.integers(0, 64))
def test_one_operand_and_widths(operands: tuple[int, int, int], more: int) -> None:
    a, b, width = operands
    t = term(a, width)
    wide = width + more
    assert of(TERMS.negate(t, width), width) == NUMBERS.negate(a, width)
    assert of(TERMS.invert(t, width), width) == NUMBERS.invert(a, width)
    assert of(TERMS.zero_extend(t, width, wide), wide) == a
    assert of(TERMS.sign_extend(t, width, wide), wide) == NUMBERS.sign_extend(a, width, wide)
    extended = TERMS.zero_extend(t, width, wide)
    assert of(TERMS.truncate(extended, width, wide), width) == a
    condition = z3.BoolVal(bool(b & 1))
    assert of(TERMS.choose(condition, t, b, width), width) == (a if b & 1 else b)


@EXAMPLES
@given(value=st.integers(0, mask(64)), low=st.integers(0, 63), width=st.integers(1, 64))
def test_parts_of_parts(value: int, low: int, width: int) -> None:
    width = min(width, 64 - low)
    t = term(value, 64)
    expected = value >> low & mask(width)
    assert NUMBERS.extract(value, low, width, 64) == expected
    assert of(TERMS.extract(t, low, width, 64), width) == expected
    half = width // 2 or width
    inner = TERMS.extract(TERMS.extract(t, low, width, 64), width - half, half, width)
    assert of(inner, half) == expected >> (width - half)


@EXAMPLES
@given(parts=st.lists(PARTS, min_size=1, max_size=6))
def test_strings_of_strings(parts: list[tuple[int, int, bool]]) -> None:
    known = [(value & mask(width), width) for value, width, _ in parts]
    mixed = [
        (term(value & mask(width), width) if is_term else value & mask(width), width)
        for value, width, is_term in parts
    ]
    total = sum(width for _, width in known)
    joined = TERMS.concat(mixed)
    assert of(joined, total) == number(NUMBERS.concat(known))
    at = 0
    for value, width in known:
        assert of(TERMS.extract(joined, at, width, total), width) == value
        at += width


@EXAMPLES
@given(value=st.integers(0, mask(64)), size=st.sampled_from([2, 4, 8]))
def test_swapped_bytes(value: int, size: int) -> None:
    value &= mask(8 * size)
    swapped = int.from_bytes(value.to_bytes(size, "big"), "little")
    assert NUMBERS.swap(value, 8 * size) == swapped
    assert of(TERMS.swap(term(value, 8 * size), 8 * size), 8 * size) == swapped


def test_division_and_shifts_are_those_of_bpf() -> None:
    assert NUMBERS.binary(Op.UDIV, 5, 0, 32) == 0
    assert NUMBERS.binary(Op.UMOD, 5, 0, 32) == 5
    assert NUMBERS.binary(Op.SHL, 1, 33, 32) == 2
    assert NUMBERS.binary(Op.ASHR, 1 << 31, 31, 32) == mask(32)
    assert signed(mask(8), 8) == -1


def test_bytes_taken_apart_and_put_together_are_the_term_again() -> None:
    x = z3.BitVec("x", 64)
    taken = [(TERMS.extract(x, 8 * i, 8, 64), 8) for i in range(8)]
    whole: Any = TERMS.concat(taken)
    assert whole.eq(x)
    low: Any = TERMS.truncate(TERMS.zero_extend(TERMS.truncate(x, 32, 64), 32, 64), 32, 64)
    assert low.eq(z3.Extract(31, 0, x))


@given(a=st.booleans(), b=st.booleans(), terms=MIXED)
def test_truths(a: bool, b: bool, terms: tuple[bool, bool]) -> None:
    left, right = z3.BoolVal(a) if terms[0] else a, z3.BoolVal(b) if terms[1] else b
    assert holds(TERMS.both(left, right)) == NUMBERS.both(a, b) == (a and b)
    assert holds(TERMS.either(left, right)) == NUMBERS.either(a, b) == (a or b)
    assert holds(TERMS.no(left)) == NUMBERS.no(a) == (not a)


def test_unknown_terms_stay_what_they_mean() -> None:
    x, y = z3.BitVecs("x y", 32)
    solver: Any = z3.Solver()
    folded: list[Any] = [
        TERMS.binary(Op.ADD, x, 0, 32) == x,
        TERMS.binary(Op.AND, x, mask(32), 32) == x,
        TERMS.compare(Cmp.ULE, x, x, 32),
        TERMS.no(TERMS.compare(Cmp.ULT, x, x, 32)),
        TERMS.binary(Op.UMOD, x, 0, 32) == x,
        TERMS.choose(x == y, x, y, 32) == y,
        z3.Implies(y == 0, TERMS.binary(Op.UDIV, x, y, 32) == 0),
        z3.Implies(y == 0, TERMS.binary(Op.UMOD, x, y, 32) == x),
        TERMS.binary(Op.SHL, x, y, 32) == TERMS.binary(Op.SHL, x, y & 31, 32),
    ]
    solver.add(z3.Not(z3.And(*(TERMS.lift_truth(each) for each in folded))))
    assert solver.check() == z3.unsat


def test_numbers_take_no_terms() -> None:
    x: Any = z3.BitVec("x", 32)
    attempts: list[Callable[[], object]] = [
        lambda: NUMBERS.binary(Op.ADD, x, 1, 32),
        lambda: NUMBERS.compare(Cmp.EQ, x, 1, 32),
        lambda: NUMBERS.extract(x, 0, 8, 32),
        lambda: NUMBERS.zero_extend(x, 32, 64),
        lambda: NUMBERS.sign_extend(x, 32, 64),
        lambda: NUMBERS.concat([(x, 32), (1, 8)]),
        lambda: NUMBERS.choose(x == 1, 1, 2, 32),
        lambda: NUMBERS.no(x == 1),
        lambda: NUMBERS.both(x == 1, x == 2),
        lambda: number(x),
    ]
    for attempt in attempts:
        with pytest.raises(InternalError):
            attempt()


@EXAMPLES
@given(x=st.integers(0, mask(32)), y=st.integers(0, mask(32)))
def test_the_sign_of_a_difference_is_a_comparison(x: int, y: int) -> None:
    """As branchless code counts: of 32 bits extended, with one added before or after."""
    terms = [z3.BitVec("x", 32), z3.BitVec("y", 32)]
    values = [(terms[0], z3.BitVecVal(x, 32)), (terms[1], z3.BitVecVal(y, 32))]
    low, high = (TERMS.zero_extend(term, 32, 64) for term in terms)
    early = TERMS.zero_extend(TERMS.binary(Op.ADD, terms[1], 1, 32), 32, 64)
    late = TERMS.binary(Op.ADD, high, 1, 64)
    for other, beyond in ((high, y), (early, y + 1 & mask(32)), (late, y + 1)):
        sign: Any = TERMS.binary(Op.LSHR, TERMS.binary(Op.SUB, low, other, 64), 63, 64)
        found = z3.simplify(z3.substitute(sign, *values)).as_long()
        assert found == ((x - beyond) & mask(64)) >> 63
