# SPDX-License-Identifier: Apache-2.0
"""The executor on numbers agrees with the kernel: random sequences leave equal registers and
memory.
"""

import random

import pytest

from policyc.verifier.bytecode import values
from policyc.verifier.bytecode.errors import FaultError
from policyc.verifier.bytecode.values import Cmp, Op
from tests.kernel.support.bytecode_engines import (
    array,
    by_executor,
    by_kernel,
    kernel_maps,
    program_of,
)
from tests.kernel.support.random_bytecode import (
    CELL,
    CELLS,
    GIVEN,
    INPUT,
    LEFT,
    N_CELLS,
    OUTPUT,
    RandomProgram,
    random_program,
    wide,
)
from tests.property.length import examples

pytestmark = pytest.mark.kernel
IN_ONE = 50
"""Sequences of a program."""
DEFINITIONS = {
    INPUT: array(INPUT, GIVEN * IN_ONE),
    OUTPUT: array(OUTPUT, LEFT * IN_ONE),
    CELLS: array(CELLS, CELL, N_CELLS),
}


def given_values(rng: random.Random) -> dict[str, tuple[bytes, ...]]:
    words = b"".join(wide(rng).to_bytes(8, "little") for _ in range(GIVEN * IN_ONE // 8))
    cells = tuple(rng.randbytes(CELL) for _ in range(N_CELLS))
    return {INPUT: (words,), OUTPUT: (bytes(LEFT * IN_ONE),), CELLS: cells}


def different(program: RandomProgram, one: bytes, two: bytes) -> list[str]:
    """Which sequences left something else, and in which of their words."""
    return [
        f"sequence {at // LEFT} {program.sequences[at // LEFT].hex()}: word {at % LEFT // 8}:"
        f" {one[at : at + 8][::-1].hex()} of the kernel, {two[at : at + 8][::-1].hex()} here"
        for at in range(0, len(one), 8)
        if one[at : at + 8] != two[at : at + 8]
    ]


def compare(seed: int, descriptors: dict[str, int]) -> tuple[bytes, ...]:
    """Run one program on both; gives its sequences."""
    rng = random.Random(seed)
    program, given = random_program(rng, IN_ONE), given_values(rng)
    code = program.encoded(descriptors)
    kernel = by_kernel(code, descriptors, DEFINITIONS, given)
    here = by_executor(
        program_of(code, program.starts, descriptors, DEFINITIONS), DEFINITIONS, given
    )
    assert not different(program, kernel.maps[OUTPUT][0], here.maps[OUTPUT][0]), f"seed {seed}"
    assert kernel == here, f"seed {seed}"
    assert kernel.result == 0
    return program.sequences


def compare_many(first: int, programs: int) -> int:
    """How many different sequences were compared."""
    seen: set[bytes] = set()
    with kernel_maps(DEFINITIONS) as descriptors:
        for seed in range(first, first + programs):
            seen.update(compare(seed, descriptors))
    return len(seen)


@pytest.mark.parametrize("op", [*Op, *Cmp])
def test_an_operation_with_one_wrong_bit_is_detected(
    op: Op | Cmp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison covers every result of every instruction."""
    if isinstance(op, Op):
        right = values._BINARY[op]
        monkeypatch.setitem(values._BINARY, op, lambda a, b, width: right(a, b, width) ^ 1)
    else:
        was = values._COMPARED[op]
        monkeypatch.setitem(values._COMPARED, op, lambda a, b, width: not was(a, b, width))
    with pytest.raises((AssertionError, FaultError)):
        compare_many(0, 4)


def test_thousands_of_random_sequences_leave_the_kernels_registers_and_memory() -> None:
    assert compare_many(0, examples(61, 2)) >= examples(3000, 2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_random_sequences_leave_the_kernels_registers_and_memory() -> None:
    assert compare_many(1_000_000, 2020) >= 100_000
