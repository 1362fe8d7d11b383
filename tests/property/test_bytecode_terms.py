# SPDX-License-Identifier: Apache-2.0
"""Random bytecode over terms: what it computes for some registers is what numbers give."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.verifier.bytecode.linked import Linked
from policyc.verifier.bytecode.machine import Branch, step
from policyc.verifier.bytecode.state import State
from policyc.verifier.bytecode.values import NUMBERS, Bits
from tests.kernel.support.random_bytecode import (
    WORDS,
    plain_sequence,
    wide,
)
from tests.property.bytecode_terms import (
    AROUND,
    NAMES,
    TERMS,
    Inputs,
    at_word,
    holds,
    known,
    linked,
    state_of,
)
from tests.property.length import examples


def left_by(state: State) -> list[Bits]:
    words = [state.load_bits(at_word(state, word), 8) for word in range(WORDS)]
    return [*(state.scalar(i) for i in range(10)), *words]


def run_through(state: State, code: dict[int, Linked], inputs: Inputs) -> int:
    """Where a condition is not known, the way that the inputs take; gives how often it was not."""
    branches = 0
    while state.at in code:
        outcome = step(state, code[state.at], AROUND)
        if isinstance(outcome, Branch):
            branches += 1
            outcome.go(state, is_taken=holds(outcome.condition, inputs))
    return branches


@settings(max_examples=examples(300, 2))
@given(seed=st.integers(0, 2**32))
def test_execution_on_terms_equals_execution_on_numbers(seed: int) -> None:
    rng = random.Random(seed)
    code = linked(plain_sequence(rng))
    values = [wide(rng) for _ in NAMES]
    inputs = dict(zip(NAMES, values, strict=True))
    numbers, terms = state_of(NUMBERS, values), state_of(TERMS, NAMES)
    assert run_through(numbers, code, {}) == 0
    run_through(terms, code, inputs)
    assert [known(each, inputs) for each in left_by(terms)] == left_by(numbers)
