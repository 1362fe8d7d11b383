# SPDX-License-Identifier: Apache-2.0
"""Each instruction by an example, from RFC 9669; the kernel's word on all others is in tests/kernel."""

import pytest

from policyc.verifier.bytecode.concrete import run
from policyc.verifier.bytecode.instructions import (
    Alu,
    AluOp,
    Atomic,
    AtomicOp,
    Exit,
    Imm,
    Jump,
    JumpIf,
    JumpOp,
    Load,
    Negate,
    Reg,
    Store,
    Swap,
)
from policyc.verifier.bytecode.linked import Linked, LoadNumber
from policyc.verifier.bytecode.state import State
from tests.unit.verifier.bytecode.machines import (
    FP,
    around,
    mov,
)

ONES = (1 << 64) - 1
A, B = 0xFFFFFFFF_80000005, 0x00000001_00000003

ALU = [
    (AluOp.ADD, 0x00000000_80000008, 0x80000008),
    (AluOp.SUB, 0xFFFFFFFE_80000002, 0x80000002),
    (AluOp.MUL, (A * B) & ONES, 0x8000000F),
    (AluOp.DIV, A // B, 0x80000005 // 3),
    (AluOp.MOD, A % B, 0x80000005 % 3),
    (AluOp.OR, 0xFFFFFFFF_80000007, 0x80000007),
    (AluOp.AND, 0x00000001_00000001, 0x00000001),
    (AluOp.XOR, 0xFFFFFFFE_80000006, 0x80000006),
    (AluOp.MOV, B, 3),
    (AluOp.LSH, (A << 3) & ONES, 0x00000028),
    (AluOp.RSH, A >> 3, 0x80000005 >> 3),
    (AluOp.ARSH, 0xFFFFFFFF_F0000000, 0xF0000000),
]


def r0(*code: Linked) -> int:
    """All 64 bits of it."""
    state: State = run(around(*code, Exit())).state
    value = state.registers[0]
    assert isinstance(value, int)
    return value


@pytest.mark.parametrize(("op", "wide", "narrow"), ALU)
def test_arithmetic(op: AluOp, wide: int, narrow: int) -> None:
    load: tuple[Linked, ...] = (LoadNumber(0, A), LoadNumber(1, B))
    assert r0(*load, Alu(op, 64, 0, Reg(1))) == wide
    assert r0(*load, Alu(op, 32, 0, Reg(1))) == narrow, "the upper half is cleared"


def test_arithmetic_has_all_operations() -> None:
    assert {op for op, *_ in ALU} == set(AluOp)


def test_numbers_in_instructions_are_signed() -> None:
    assert r0(mov(0, -1)) == ONES
    assert r0(Alu(AluOp.MOV, 32, 0, Imm(-1))) == 0xFFFFFFFF
    assert r0(mov(0, 5), Alu(AluOp.ADD, 64, 0, Imm(-6))) == ONES
    assert r0(mov(0, -1), Alu(AluOp.DIV, 64, 0, Imm(-1))) == 1


def test_division_by_a_term_that_is_zero() -> None:
    zero: tuple[Linked, ...] = (LoadNumber(0, A), mov(1, 0))
    assert r0(*zero, Alu(AluOp.DIV, 64, 0, Reg(1))) == 0
    assert r0(*zero, Alu(AluOp.MOD, 64, 0, Reg(1))) == A
    assert r0(*zero, Alu(AluOp.DIV, 32, 0, Reg(1))) == 0
    assert r0(*zero, Alu(AluOp.MOD, 32, 0, Reg(1))) == A & 0xFFFFFFFF


def test_shifts_take_the_lowest_bits_of_their_count() -> None:
    assert r0(mov(0, 1), mov(1, 65), Alu(AluOp.LSH, 64, 0, Reg(1))) == 2
    assert r0(mov(0, 1), mov(1, 33), Alu(AluOp.LSH, 32, 0, Reg(1))) == 2


def test_negation() -> None:
    assert r0(mov(0, 1), Negate(64, 0)) == ONES
    assert r0(mov(0, 1), Negate(32, 0)) == 0xFFFFFFFF


@pytest.mark.parametrize(
    ("bits", "to_big", "expected"),
    [
        (16, True, 0x0807),
        (32, True, 0x08070605),
        (64, True, 0x0807060504030201),
        (16, False, 0x0708),
        (32, False, 0x05060708),
        (64, False, 0x0102030405060708),
    ],
)
def test_byte_order(bits: int, to_big: bool, expected: int) -> None:
    assert r0(LoadNumber(0, 0x0102030405060708), Swap(bits, to_big, 0)) == expected


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_memory(size: int) -> None:
    ones: tuple[Linked, ...] = (mov(1, -1), Store(8, FP, -8, Imm(0)), Store(size, FP, -8, Reg(1)))
    assert r0(*ones, Load(8, 0, FP, -8)) == (1 << 8 * size) - 1
    assert r0(*ones, Store(8, FP, -8, Imm(-2)), Load(size, 0, FP, -8)) == (1 << 8 * size) - 2


ATOMIC = [  # what becomes of 12 with 10
    (AtomicOp.ADD, 0x16),
    (AtomicOp.OR, 0x0E),
    (AtomicOp.AND, 0x08),
    (AtomicOp.XOR, 0x06),
    (AtomicOp.XCHG, 0x0A),
    (AtomicOp.CMPXCHG, 0x0A),
]


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize(("op", "expected"), ATOMIC)
def test_atomic_operations(op: AtomicOp, expected: int, size: int) -> None:
    code: tuple[Linked, ...] = (
        Store(8, FP, -8, Imm(12)),
        mov(0, 12),
        mov(1, 10),
        Atomic(op, size, FP, -8, 1, fetch=True),
    )
    assert r0(*code, Load(8, 0, FP, -8)) == expected
    fetched = 0 if op is AtomicOp.CMPXCHG else 1
    assert r0(*code, mov(0, Reg(fetched))) == 12
    if op not in (AtomicOp.XCHG, AtomicOp.CMPXCHG):
        silent = (*code[:3], Atomic(op, size, FP, -8, 1, fetch=False))
        assert r0(*silent, Load(8, 0, FP, -8)) == expected
        assert r0(*silent, mov(0, Reg(1))) == 10


def test_a_compare_and_exchange_of_another_value_changes_nothing() -> None:
    code: tuple[Linked, ...] = (
        Store(8, FP, -8, Imm(12)),
        mov(0, 13),
        mov(1, 10),
        Atomic(AtomicOp.CMPXCHG, 8, FP, -8, 1, fetch=True),
    )
    assert r0(*code) == 12
    assert r0(*code, Load(8, 0, FP, -8)) == 12


JUMPS = {
    JumpOp.JEQ: (False, True, False),
    JumpOp.JNE: (True, False, True),
    JumpOp.JGT: (True, False, False),
    JumpOp.JGE: (True, True, False),
    JumpOp.JLT: (False, False, True),
    JumpOp.JLE: (False, True, True),
    JumpOp.JSGT: (False, False, True),
    JumpOp.JSGE: (False, True, True),
    JumpOp.JSLT: (True, False, False),
    JumpOp.JSLE: (True, True, False),
    JumpOp.JSET: (True, True, True),
}
"""Whether it is taken for -1 and 1, for 1 and 1, for 1 and -1."""


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("op", JumpOp)
def test_jumps(op: JumpOp, width: int) -> None:
    for (a, b), is_taken in zip(((-1, 1), (1, 1), (1, -1)), JUMPS[op], strict=True):
        for src in (Imm(b), Reg(2)):
            code = (mov(1, a), mov(2, b), mov(0, 1), JumpIf(op, width, 1, src, 1), mov(0, 0))
            assert r0(*code) == is_taken, (a, b)


def test_jumps_of_32_bits_see_no_others() -> None:
    code: tuple[Linked, ...] = (LoadNumber(1, 1 << 32), mov(0, 1))
    assert r0(*code, JumpIf(JumpOp.JEQ, 32, 1, Imm(0), 1), mov(0, 0)) == 1
    assert r0(*code, JumpIf(JumpOp.JEQ, 64, 1, Imm(0), 1), mov(0, 0)) == 0
    assert r0(*code, JumpIf(JumpOp.JSET, 64, 1, Imm(1), 1), mov(0, 0)) == 0


def test_a_jump_is_relative_to_the_next_instruction() -> None:
    assert r0(mov(0, 1), Jump(2), LoadNumber(0, 7)) == 1
