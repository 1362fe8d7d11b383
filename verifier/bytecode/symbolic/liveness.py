# SPDX-License-Identifier: Apache-2.0
"""Liveness: the registers, and the stack bytes read through r10 itself, that may still be read.

The rest need not be distinguished where paths join. A stack byte that is read through another pointer is
missing here: then a pointer stored there is forgotten too early, and using it is an error.
"""

from collections.abc import Iterator, Mapping

from policyc.verifier.bytecode.instructions import (
    FRAME_POINTER,
    Alu,
    AluOp,
    Atomic,
    AtomicOp,
    Exit,
    JumpIf,
    Load,
    Negate,
    Operand,
    Reg,
    Store,
    Swap,
)
from policyc.verifier.bytecode.linked import (
    CallFunction,
    CallHelper,
    CallKfunc,
    Linked,
    LoadMap,
    LoadMapValue,
    LoadNumber,
)
from policyc.verifier.bytecode.program import Function, successors

_ARGUMENTS = frozenset(range(1, 6))
_CLOBBERED = frozenset(range(6))
_NONE: frozenset[int] = frozenset()


def live_places(function: Function) -> Mapping[int, frozenset[int]]:
    """For each slot, the registers and stack bytes that are read before they are written on some path.

    Registers by their numbers, places of the stack by their (negative) offsets.
    """
    live = dict.fromkeys(function.code, _NONE)
    before: dict[int, list[int]] = {at: [] for at in function.code}
    for at, instruction in function.code.items():
        for to in successors(at, instruction):
            before[to].append(at)
    work = list(function.code)
    while work:
        at = work.pop()
        instruction = function.code[at]
        behind = _NONE.union(*(live[to] for to in successors(at, instruction)))
        found = (behind - _written(instruction)) | frozenset(_read(instruction))
        if found != live[at]:
            live[at] = found
            work += before[at]
    return live


def _written(instruction: Linked) -> frozenset[int]:
    match instruction:
        case Alu(dst=dst) | Negate(dst=dst) | Swap(dst=dst) | Load(dst=dst):
            return frozenset((dst,))
        case LoadNumber(dst=dst) | LoadMap(dst=dst) | LoadMapValue(dst=dst):
            return frozenset((dst,))
        case CallHelper() | CallFunction() | CallKfunc():
            return _CLOBBERED
        case Store(size=8, base=base, offset=offset) if base == FRAME_POINTER:
            return frozenset((offset,))
    return _NONE  # an atomic instruction reads what it may write


def _read(instruction: Linked) -> Iterator[int]:
    match instruction:
        case Alu(op=op, dst=dst, src=src):
            if op is not AluOp.MOV:
                yield dst
            yield from _operand(src)
        case Negate(dst=dst) | Swap(dst=dst):
            yield dst
        case Load(base=base, offset=offset):
            yield base
            if base == FRAME_POINTER:
                yield offset
        case Store(base=base, src=src):
            yield base
            yield from _operand(src)
        case Atomic(base=base, src=register, op=atomic):
            yield from (base, register)
            if atomic is AtomicOp.CMPXCHG:
                yield 0
        case JumpIf(dst=dst, src=src):
            yield dst
            yield from _operand(src)
        case CallHelper() | CallFunction() | CallKfunc():
            yield from _ARGUMENTS
        case Exit():
            yield 0


def _operand(src: Operand) -> Iterator[int]:
    if isinstance(src, Reg):
        yield src.number
