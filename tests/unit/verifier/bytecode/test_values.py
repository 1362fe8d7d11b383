# SPDX-License-Identifier: Apache-2.0
"""Numbers and terms: the same operation on the same operands gives the same number."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.ir.errors import InternalError
from policyc.verifier.bytecode.evaluation import evaluate
from policyc.verifier.bytecode.nodes import Node, below
from policyc.verifier.bytecode.term_domain import TermDomain
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

TERMS = TermDomain()
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


VALUES: dict[Node, int] = {}
"""What the variables of these tests are."""


def of(term: Bits, width: int) -> int:
    """The number that a term is, where all in it is known."""
    if isinstance(term, int):
        return term
    assert term.width == width
    values = dict(VALUES)
    evaluate(below(term), values)
    return values[term]


def holds(term: Truth) -> bool:
    return bool(of(term, 0)) if isinstance(term, Node) else term


def term(value: int, width: int) -> Node:
    """A number that the domain takes for something unknown."""
    node = TERMS.variable(f"the number {value}", width)
    VALUES[node] = value
    return node


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
    condition = term(b & 1, 0)
    assert of(TERMS.choose(condition, t, b, width), width) == (a if b & 1 else b)


@EXAMPLES
@given(value=st.integers(0, mask(64)), low=st.integers(0, 63), width=st.integers(1, 64))
def test_extract_of_extract_selects_the_same_bits(value: int, low: int, width: int) -> None:
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
    x = TERMS.variable("x", 64)
    taken = [(TERMS.extract(x, 8 * i, 8, 64), 8) for i in range(8)]
    assert TERMS.concat(taken) is x
    low = TERMS.truncate(x, 32, 64)
    assert TERMS.truncate(TERMS.zero_extend(low, 32, 64), 32, 64) is low


@given(a=st.booleans(), b=st.booleans(), terms=MIXED)
def test_boolean_terms_equal_booleans(a: bool, b: bool, terms: tuple[bool, bool]) -> None:
    left, right = term(a, 0) if terms[0] else a, term(b, 0) if terms[1] else b
    assert holds(TERMS.both(left, right)) == NUMBERS.both(a, b) == (a and b)
    assert holds(TERMS.either(left, right)) == NUMBERS.either(a, b) == (a or b)
    assert holds(TERMS.no(left)) == NUMBERS.no(a) == (not a)


def test_simplified_terms_keep_their_meaning() -> None:
    x, y = (TERMS.variable(name, 32) for name in "xy")
    assert TERMS.binary(Op.ADD, x, 0, 32) is x
    assert TERMS.binary(Op.AND, x, mask(32), 32) is x
    assert TERMS.compare(Cmp.ULE, x, x, 32) is True
    assert TERMS.compare(Cmp.ULT, x, x, 32) is False
    assert TERMS.binary(Op.UMOD, x, 0, 32) is x
    assert TERMS.binary(Op.UDIV, x, 0, 32) == 0
    assert TERMS.choose(TERMS.equal(x, y, 32), x, x, 32) is x
    count = TERMS.binary(Op.AND, y, 31, 32)
    assert TERMS.binary(Op.SHL, x, y, 32) is TERMS.binary(Op.SHL, x, count, 32)


def test_numbers_take_no_terms() -> None:
    x, truth = TERMS.variable("x", 32), TERMS.truth("truth")
    attempts: list[Callable[[], object]] = [
        lambda: NUMBERS.binary(Op.ADD, x, 1, 32),
        lambda: NUMBERS.compare(Cmp.EQ, x, 1, 32),
        lambda: NUMBERS.extract(x, 0, 8, 32),
        lambda: NUMBERS.zero_extend(x, 32, 64),
        lambda: NUMBERS.sign_extend(x, 32, 64),
        lambda: NUMBERS.concat([(x, 32), (1, 8)]),
        lambda: NUMBERS.choose(truth, 1, 2, 32),
        lambda: NUMBERS.no(truth),
        lambda: NUMBERS.both(truth, truth),
        lambda: number(x),
    ]
    for attempt in attempts:
        with pytest.raises(InternalError):
            attempt()


@EXAMPLES
@given(x=st.integers(0, mask(32)), y=st.integers(0, mask(32)))
def test_the_sign_of_a_difference_is_a_comparison(x: int, y: int) -> None:
    """As branchless code counts: of 32 bits extended, with one added before or after."""
    terms = [term(x, 32), term(y, 32)]
    low, high = (TERMS.zero_extend(term, 32, 64) for term in terms)
    early = TERMS.zero_extend(TERMS.binary(Op.ADD, terms[1], 1, 32), 32, 64)
    late = TERMS.binary(Op.ADD, high, 1, 64)
    for other, beyond in ((high, y), (early, y + 1 & mask(32)), (late, y + 1)):
        sign = TERMS.binary(Op.LSHR, TERMS.binary(Op.SUB, low, other, 64), 63, 64)
        assert of(sign, 64) == ((x - beyond) & mask(64)) >> 63
