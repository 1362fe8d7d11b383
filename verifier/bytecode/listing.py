# SPDX-License-Identifier: Apache-2.0
"""Code as text, one instruction a line, for messages and for people."""

from collections.abc import Iterator
from typing import assert_never

from policyc.verifier.bytecode.instructions import (
    Alu,
    AluOp,
    Atomic,
    Call,
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
    Poisoned,
)
from policyc.verifier.bytecode.program import Function

_SIGNS = {
    AluOp.ADD: "+=",
    AluOp.SUB: "-=",
    AluOp.MUL: "*=",
    AluOp.DIV: "/=",
    AluOp.OR: "|=",
    AluOp.AND: "&=",
    AluOp.LSH: "<<=",
    AluOp.RSH: ">>=",
    AluOp.MOD: "%=",
    AluOp.XOR: "^=",
    AluOp.MOV: "=",
    AluOp.ARSH: "s>>=",
}
_CONDITIONS = {
    JumpOp.JEQ: "==",
    JumpOp.JGT: ">",
    JumpOp.JGE: ">=",
    JumpOp.JSET: "&",
    JumpOp.JNE: "!=",
    JumpOp.JSGT: "s>",
    JumpOp.JSGE: "s>=",
    JumpOp.JLT: "<",
    JumpOp.JLE: "<=",
    JumpOp.JSLT: "s<",
    JumpOp.JSLE: "s<=",
}


def listing(function: Function) -> Iterator[str]:
    """The lines of a function; jumps name the slot that they lead to."""
    for at, instruction in function.code.items():
        yield f"{at:5}: {text(instruction, at)}"


def text(instruction: Instruction | Linked, at: int | None = None) -> str:
    """An instruction. With its slot, jumps show their target, otherwise their distance."""
    match instruction:
        case Alu(op, width, dst, src):
            return f"{_register(dst, width)} {_SIGNS[op]} {_operand(src, width)}"
        case Negate(width, dst):
            return f"{_register(dst, width)} = -{_register(dst, width)}"
        case Swap(bits, to_big, dst):
            return f"r{dst} = {'be' if to_big else 'le'}{bits} r{dst}"
        case Load(size, dst, base, offset):
            return f"r{dst} = {_memory(size, base, offset)}"
        case Store(size, base, offset, src):
            return f"{_memory(size, base, offset)} = {_operand(src, 64)}"
        case Atomic(op, size, base, offset, src, fetch):
            fetched = " and fetch" if fetch else ""
            return f"atomic {op.name.lower()}{fetched} {_memory(size, base, offset)}, r{src}"
        case Jump(offset):
            return f"goto {_target(at, offset)}"
        case JumpIf(op, width, dst, src, offset):
            condition = f"{_register(dst, width)} {_CONDITIONS[op]} {_operand(src, width)}"
            return f"if {condition} goto {_target(at, offset)}"
        case Exit():
            return "exit"
        case Call(kind, target, module):
            return f"call {kind.name.lower()} {target}{f' of module {module}' if module else ''}"
        case LoadWide(dst, kind, low, high):
            return f"r{dst} = {kind.name.lower()} {high << 32 | low:#x}"
        case LoadNumber() | LoadMap() | LoadMapValue():
            return _loaded(instruction)
        case CallHelper() | CallFunction() | CallKfunc() | Poisoned():
            return _called(instruction)
    assert_never(instruction)


def _loaded(instruction: LoadNumber | LoadMap | LoadMapValue) -> str:
    match instruction:
        case LoadNumber(dst, value):
            return f"r{dst} = {value:#x}"
        case LoadMap(dst, name):
            return f"r{dst} = map {name}"
        case LoadMapValue(dst, name, offset):
            return f"r{dst} = {name} + {offset}"


def _called(instruction: CallHelper | CallFunction | CallKfunc | Poisoned) -> str:
    match instruction:
        case CallHelper(number):
            return f"call helper {number}"
        case CallFunction(name):
            return f"call {name}"
        case CallKfunc(name):
            return f"call kfunc {name}"
        case Poisoned(why):
            return f"never: {why}"


def _register(number: int, width: int) -> str:
    return f"{'r' if width == 64 else 'w'}{number}"


def _operand(src: Operand, width: int) -> str:
    return str(src.value) if isinstance(src, Imm) else _register(src.number, width)


def _memory(size: int, base: int, offset: int) -> str:
    return f"*(u{8 * size} *)(r{base} {'-' if offset < 0 else '+'} {abs(offset)})"


def _target(at: int | None, offset: int) -> str:
    return f"{offset:+}" if at is None else str(at + 1 + offset)
