# SPDX-License-Identifier: Apache-2.0
"""Programs of many random sequences, each of which leaves its registers and its stack in a map.

A sequence gets its registers from a map, so that the kernel's verifier knows none of them and takes no
branch away. Between its parts r0 to r9 hold numbers; jumps lead forward, to where a part begins. Stack
at r10: -128 to -64 is the sequence's own, -24 a register put aside, -20 a key, -16 and -8 the maps'.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from policyc.verifier.bytecode.encoding import encode
from policyc.verifier.bytecode.instructions import (
    Alu,
    AluOp,
    Atomic,
    AtomicOp,
    Call,
    CallKind,
    Exit,
    Imm,
    Instruction,
    Jump,
    JumpIf,
    JumpOp,
    Load,
    LoadWide,
    Negate,
    Operand,
    Pseudo,
    Reg,
    Store,
    Swap,
    slots,
)

INPUT, OUTPUT, CELLS = "input", "output", "cells"
N_CELLS, CELL = 4, 64
WORDS = 8
GIVEN, LEFT = 8 * 10, 8 * (10 + WORDS)
"""Bytes that a sequence gets, and leaves."""
AREA = -128
_KEY, _ASIDE, _INPUT, _OUTPUT = -20, -32, -16, -8
_FRAME = 10
_LOOKUP = 1
_SIZES = (1, 2, 4, 8)
_EDGES = (0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x7FFFFFFF, -1, -2, -0x80, -0x80000000)
_WIDE_EDGES = (0, 1, 1 << 31, 1 << 32, (1 << 32) - 1, 1 << 63, (1 << 63) - 1, (1 << 64) - 1)
_SHIFTS = (AluOp.LSH, AluOp.RSH, AluOp.ARSH)
_DIVISIONS = (AluOp.DIV, AluOp.MOD)
Part = list[Instruction]


def wide(rng: random.Random) -> int:
    """64 bits: anything, little, or near an edge."""
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(_WIDE_EDGES)
    bits = rng.choice((8, 16, 32, 64))
    sign = rng.choice((1, -1))
    return sign * rng.getrandbits(bits) & (1 << 64) - 1


def _number(rng: random.Random) -> int:
    return rng.choice(_EDGES) if rng.random() < 0.5 else rng.randrange(-(1 << 31), 1 << 31)


def _operand(rng: random.Random) -> Operand:
    return Reg(rng.randrange(10)) if rng.random() < 0.6 else Imm(_number(rng))


def _alu(rng: random.Random) -> Part:
    op, width = rng.choice(list(AluOp)), rng.choice((32, 64))
    src = _operand(rng)
    if isinstance(src, Imm) and op in _SHIFTS:
        src = Imm(rng.randrange(width))
    if src == Imm(0) and op in _DIVISIONS:
        src = Imm(3)
    return [Alu(op, width, rng.randrange(10), src)]


def _negate(rng: random.Random) -> Part:
    return [Negate(rng.choice((32, 64)), rng.randrange(10))]


def _swap(rng: random.Random) -> Part:
    return [Swap(rng.choice((16, 32, 64)), rng.random() < 0.7, rng.randrange(10))]


def _wide(rng: random.Random) -> Part:
    value = wide(rng)
    return [LoadWide(rng.randrange(10), Pseudo.NUMBER, value & 0xFFFFFFFF, value >> 32)]


def _stack_offset(rng: random.Random, size: int) -> int:
    return AREA + size * rng.randrange(8 * WORDS // size)


def _stack_load(rng: random.Random) -> Part:
    size = rng.choice(_SIZES)
    return [Load(size, rng.randrange(10), _FRAME, _stack_offset(rng, size))]


def _stack_store(rng: random.Random) -> Part:
    size = rng.choice(_SIZES)
    return [Store(size, _FRAME, _stack_offset(rng, size), _operand(rng))]


def _atomic_at(rng: random.Random, base: int, offset: int, size: int, src: int) -> Atomic:
    op = rng.choice(list(AtomicOp))
    fetch = op in (AtomicOp.XCHG, AtomicOp.CMPXCHG) or rng.random() < 0.5
    return Atomic(op, size, base, offset, src, fetch)


def _stack_atomic(rng: random.Random) -> Part:
    """One byte is written before a fetch, so that the verifier does not know what is fetched.

    Kernels without the commit 179ee84a8911 (of April 2026) do not follow what it knows of a number
    through an atomic operation on the stack, and may take a branch away that is then needed.
    """
    size = rng.choice((4, 8))
    atomic = _atomic_at(rng, _FRAME, _stack_offset(rng, size), size, rng.randrange(10))
    unknown = Store(1, _FRAME, atomic.offset + rng.randrange(size), Imm(rng.randrange(1, 128)))
    return [unknown, atomic] if atomic.fetch else [atomic]


def _again(rng: random.Random) -> Part:
    """Numbers for the registers that a call takes away."""
    return [
        Alu(
            AluOp.MOV, 64, i, Reg(rng.randrange(6, 10)) if rng.random() < 0.5 else Imm(_number(rng))
        )
        for i in range(1, 6)
    ]


def _lookup(rng: random.Random) -> Part:
    """Look an element of the map up, which may not be there, and work on it."""
    key: Operand = Imm(rng.randrange(N_CELLS + 2)) if rng.random() < 0.7 else Reg(rng.randrange(10))
    base = rng.randrange(6, 10)
    others = [each for each in range(6, 10) if each != base]
    work: Part = [Alu(AluOp.MOV, 64, base, Reg(0)), Alu(AluOp.MOV, 64, 0, Imm(_number(rng)))]
    work += [_on_element(rng, base, others) for _ in range(rng.randrange(1, 5))]
    work.append(Load(rng.choice(_SIZES), base, base, rng.randrange(CELL - 8)))
    return [
        *_address_of(CELLS, key),
        JumpIf(JumpOp.JEQ, 64, 0, Imm(0), sum(map(slots, work))),
        *work,
        *_again(rng),
    ]


def _on_element(rng: random.Random, base: int, others: Sequence[int]) -> Instruction:
    """Any alignment, but for atomics: one over two cache lines would stop the machine's others."""
    size = rng.choice(_SIZES)
    offset = rng.randrange(CELL - size + 1)
    match rng.randrange(3):
        case 0:
            return Load(size, rng.choice(others), base, offset)
        case 1:
            src: Operand = Reg(rng.choice(others)) if rng.random() < 0.6 else Imm(_number(rng))
            return Store(size, base, offset, src)
    size = rng.choice((4, 8))
    return _atomic_at(rng, base, size * rng.randrange(CELL // size), size, rng.choice(others))


_MAPS = (INPUT, OUTPUT, CELLS)


def _address_of(name: str, key: Operand) -> Part:
    """r0 = the map's value for the key; which map, by its place, until there are descriptors."""
    return [
        Store(4, _FRAME, _KEY, key),
        Alu(AluOp.MOV, 64, 2, Reg(_FRAME)),
        Alu(AluOp.ADD, 64, 2, Imm(_KEY)),
        LoadWide(1, Pseudo.MAP, _MAPS.index(name), 0),
        Call(CallKind.HELPER, _LOOKUP),
    ]


def _call(rng: random.Random) -> Part:
    """A function of the program, by its number until it has a place."""
    return [Call(CallKind.LOCAL, rng.randrange(N_FUNCTIONS)), *_again(rng)]


_KINDS: tuple[tuple[Callable[[random.Random], Part], int], ...] = (
    (_alu, 50),
    (_negate, 3),
    (_swap, 5),
    (_wide, 3),
    (_stack_load, 10),
    (_stack_store, 10),
    (_stack_atomic, 6),
    (_lookup, 4),
    (_call, 2),
)
_SIMPLE = _KINDS[:7]
N_FUNCTIONS = 3


def _parts(
    rng: random.Random, count: int, kinds: Sequence[tuple[Callable[[random.Random], Part], int]]
) -> Part:
    """Random parts, with jumps between them."""
    made = [make for make, _ in kinds]
    weights = [weight for _, weight in kinds]
    parts = [make(rng) for make in rng.choices(made, weights, k=count)]
    targets: set[int] = set()
    jumps: dict[int, int] = {}  # behind a part, to another
    for at in range(count - 1):
        to = min(count, at + 1 + rng.randrange(1, 4))
        if rng.random() < 0.2:
            jumps[at] = to
            targets.add(to)
    return _with_jumps(rng, parts, jumps, targets)


def _with_jumps(
    rng: random.Random, parts: list[Part], jumps: dict[int, int], targets: set[int]
) -> Part:
    """Jumps are one slot. Without a condition only where something else leads to what follows."""
    lengths = [sum(map(slots, part)) + (at in jumps) for at, part in enumerate(parts)]
    code: Part = []
    for at, part in enumerate(parts):
        code += part
        if at not in jumps:
            continue
        offset = sum(lengths[at + 1 : jumps[at]])
        if at + 1 in targets and rng.random() < 0.3:
            code.append(Jump(offset))
        else:
            op, width = rng.choice(list(JumpOp)), rng.choice((32, 64))
            code.append(JumpIf(op, width, rng.randrange(10), _operand(rng), offset))
    return code


def random_sequence(rng: random.Random) -> Part:
    """From its registers to its registers."""
    return _parts(rng, rng.randrange(4, 20), _KINDS)


def plain_sequence(rng: random.Random) -> Part:
    """The same without maps and calls."""
    return _parts(rng, rng.randrange(4, 20), _SIMPLE)


def _function(rng: random.Random) -> Part:
    """r1 to r5 are numbers; all else it makes of them."""
    begin: Part = [Alu(AluOp.MOV, 64, to, Reg(rng.randrange(1, 6))) for to in (0, 6, 7, 8, 9)]
    begin += [Store(8, _FRAME, AREA + 8 * i, Reg(rng.randrange(10))) for i in range(WORDS)]
    return [*begin, *_parts(rng, rng.randrange(2, 8), _SIMPLE), Exit()]


def _surrounded(sequence: Part, number: int) -> Part:
    """With its registers loaded before, and what it leaves stored behind it."""
    load: Part = [Load(8, 0, _FRAME, _INPUT)]
    load += [Load(8, i, 0, GIVEN * number + 8 * i) for i in range(1, 10)]
    load += [Store(8, _FRAME, AREA + 8 * i, Reg(i + 1)) for i in range(WORDS)]
    load.append(Load(8, 0, 0, GIVEN * number))
    at = LEFT * number
    store: Part = [Store(8, _FRAME, _ASIDE, Reg(0)), Load(8, 0, _FRAME, _OUTPUT)]
    store += [Store(8, 0, at + 8 * i, Reg(i)) for i in range(1, 10)]
    for word, where in ((AREA + 8 * i, 10 + i) for i in range(WORDS)):
        store += [Load(8, 1, _FRAME, word), Store(8, 0, at + 8 * where, Reg(1))]
    store += [Load(8, 1, _FRAME, _ASIDE), Store(8, 0, at, Reg(1))]
    return [*load, *sequence, *store]


def _begin() -> Part:
    """Both maps' values onto the stack; they are always there."""
    code: Part = []
    for name, where in ((INPUT, _INPUT), (OUTPUT, _OUTPUT)):
        code += [
            *_address_of(name, Imm(0)),
            JumpIf(JumpOp.JNE, 64, 0, Imm(0), 2),
            Alu(AluOp.MOV, 64, 0, Imm(1)),
            Exit(),
            Store(8, _FRAME, where, Reg(0)),
        ]
    return code


def _every_function() -> Part:
    """The kernel accepts no function without a caller."""
    given: Part = [Alu(AluOp.MOV, 64, i, Imm(i)) for i in range(1, 6)]
    return [i for n in range(N_FUNCTIONS) for i in (*given, Call(CallKind.LOCAL, n))]


@dataclass(frozen=True)
class RandomProgram:
    """Its code, where calls and maps have numbers, in one piece: `starts` are slots of functions."""

    code: tuple[Instruction, ...]
    starts: tuple[int, ...]
    sequences: tuple[bytes, ...]

    def encoded(self, descriptors: dict[str, int]) -> bytes:
        """As the kernel takes it."""
        return b"".join(
            encode(self._placed(each, descriptors, slot)) for slot, each in self._by_slot()
        )

    def _by_slot(self) -> list[tuple[int, Instruction]]:
        found, at = [], 0
        for each in self.code:
            found.append((at, each))
            at += slots(each)
        return found

    def _placed(self, each: Instruction, descriptors: dict[str, int], slot: int) -> Instruction:
        match each:
            case LoadWide(dst, Pseudo.MAP, index):
                return LoadWide(dst, Pseudo.MAP, descriptors[_MAPS[index]], 0)
            case Call(CallKind.LOCAL, function):
                return Call(CallKind.LOCAL, self.starts[1 + function] - slot - 1)
        return each


def random_program(rng: random.Random, count: int) -> RandomProgram:
    """`count` sequences and the functions that they call."""
    sequences = [random_sequence(rng) for _ in range(count)]
    bodies = [
        _begin() + [i for n, each in enumerate(sequences) for i in _surrounded(each, n)],
        *(_function(rng) for _ in range(N_FUNCTIONS)),
    ]
    bodies[0] += [*_every_function(), Alu(AluOp.MOV, 64, 0, Imm(0)), Exit()]
    starts = [0]
    for body in bodies:
        starts.append(starts[-1] + sum(map(slots, body)))
    texts = tuple(b"".join(map(encode, each)) for each in sequences)
    code = tuple(each for body in bodies for each in body)
    return RandomProgram(code, tuple(starts), texts)
