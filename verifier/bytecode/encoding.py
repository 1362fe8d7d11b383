# SPDX-License-Identifier: Apache-2.0
"""Instructions to bytes and back. The encoding is exact: a bit without a meaning must be zero."""

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple, assert_never

from policyc.verifier.bytecode.errors import InstructionError
from policyc.verifier.bytecode.instructions import (
    FRAME_POINTER,
    SLOT,
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

_LD, _LDX, _ST, _STX, _ALU, _JMP, _JMP32, _ALU64 = range(8)
_BY_REGISTER = 0x08
_IMM, _MEM, _ATOMIC = 0x00, 0x60, 0xC0
_NEG, _END = 0x80, 0xD0
_JA, _CALL, _EXIT = 0x00, 0x80, 0x90
_FETCH = 0x01
_SIZES = {0x10: 1, 0x08: 2, 0x00: 4, 0x18: 8}
_SIZE_CODES = {size: code for code, size in _SIZES.items()}
_ALU_CODES = {op.value: op for op in AluOp}
_JUMP_CODES = {op.value: op for op in JumpOp}
_ATOMIC_CODES = {op.value: op for op in AtomicOp}


class _Raw(NamedTuple):
    code: int
    dst: int
    src: int
    offset: int
    imm: int

    def only(self, **allowed: bool) -> None:
        """Check that every other field is zero."""
        for name in ("dst", "src", "offset", "imm"):
            if not allowed.get(name) and getattr(self, name):
                raise InstructionError(f"{self}: {name} is set, which means nothing here")

    def operand(self) -> Operand:
        """The source register, or the immediate."""
        if self.code & _BY_REGISTER:
            self.only(dst=True, src=True, offset=True)
            return Reg(self.src)
        self.only(dst=True, imm=True, offset=True)
        return Imm(self.imm)


def decode(code: bytes) -> dict[int, Instruction]:
    """The instructions of a piece of code, by slot. InstructionError for an invalid instruction."""
    if len(code) % SLOT:
        raise InstructionError(f"{len(code)} bytes are no whole instructions")
    found: dict[int, Instruction] = {}
    at = 0
    while at < len(code) // SLOT:
        found[at] = _decode_at(code, at)
        at += slots(found[at])
    return found


def _decode_at(code: bytes, at: int) -> Instruction:
    raw = _raw(code, at)
    if max(raw.dst, raw.src) > FRAME_POINTER:
        raise InstructionError(f"slot {at}: {raw}: there is no such register")
    try:
        if raw.code & 7 == _LD:
            return _wide(code, at, raw)
        instruction = _DECODERS[raw.code & 7](raw)
    except InstructionError as error:
        raise InstructionError(f"slot {at}: {error}") from error
    if _writes_frame_pointer(instruction):
        raise InstructionError(f"slot {at}: r10 cannot be written")
    return instruction


def _raw(code: bytes, at: int) -> _Raw:
    opcode, registers, offset, imm = struct.unpack_from("<BBhi", code, SLOT * at)
    return _Raw(opcode, registers & 15, registers >> 4, offset, imm)


def _writes_frame_pointer(instruction: Instruction) -> bool:
    match instruction:
        case Alu() | Negate() | Swap() | Load():
            return instruction.dst == FRAME_POINTER
        case Atomic():
            by_src = instruction.fetch and instruction.op is not AtomicOp.CMPXCHG
            return by_src and instruction.src == FRAME_POINTER
    return False


def _unknown(raw: _Raw) -> InstructionError:
    return InstructionError(f"{raw} is not an instruction of version 3")


def _wide(code: bytes, at: int, raw: _Raw) -> LoadWide:
    if raw.code != _LD | _IMM | _SIZE_CODES[8]:
        raise _unknown(raw)
    raw.only(dst=True, src=True, imm=True)
    if SLOT * (at + 2) > len(code):
        raise InstructionError("the second half of an LD_IMM64 is missing")
    second = _raw(code, at + 1)
    if second[:4] != (0, 0, 0, 0):
        raise InstructionError(f"{second} is no second half of an LD_IMM64")
    if raw.dst == FRAME_POINTER:
        raise InstructionError("r10 cannot be written")
    try:
        kind = Pseudo(raw.src)
    except ValueError as error:
        raise _unknown(raw) from error
    return LoadWide(raw.dst, kind, raw.imm & 0xFFFFFFFF, second.imm & 0xFFFFFFFF)


def _load(raw: _Raw) -> Load:
    if raw.code & 0xE0 != _MEM:
        raise _unknown(raw)
    raw.only(dst=True, src=True, offset=True)
    return Load(_SIZES[raw.code & 0x18], raw.dst, raw.src, raw.offset)


def _store_number(raw: _Raw) -> Store:
    if raw.code & 0xE0 != _MEM:
        raise _unknown(raw)
    raw.only(dst=True, offset=True, imm=True)
    return Store(_SIZES[raw.code & 0x18], raw.dst, raw.offset, Imm(raw.imm))


def _store(raw: _Raw) -> Store | Atomic:
    size = _SIZES[raw.code & 0x18]
    if raw.code & 0xE0 == _MEM:
        raw.only(dst=True, src=True, offset=True)
        return Store(size, raw.dst, raw.offset, Reg(raw.src))
    if raw.code & 0xE0 != _ATOMIC or size < 4:
        raise _unknown(raw)
    op, fetch = _ATOMIC_CODES.get(raw.imm & ~_FETCH), bool(raw.imm & _FETCH)
    if op is None or (op in (AtomicOp.XCHG, AtomicOp.CMPXCHG) and not fetch):
        raise _unknown(raw)
    return Atomic(op, size, raw.dst, raw.offset, raw.src, fetch)


def _alu(raw: _Raw) -> Alu | Negate | Swap:
    width = 64 if raw.code & 7 == _ALU64 else 32
    code = raw.code & 0xF0
    if code == _END:
        return _swap(raw, width)
    if code == _NEG:
        if raw.code & _BY_REGISTER:
            raise _unknown(raw)
        raw.only(dst=True)
        return Negate(width, raw.dst)
    op = _ALU_CODES.get(code)
    if op is None or raw.offset:  # an offset is signed division or a sign-extending move, of ISA v4
        raise _unknown(raw)
    src = raw.operand()
    if isinstance(src, Imm):
        _check_number(op, src.value, width)
    return Alu(op, width, raw.dst, src)


def _check_number(op: AluOp, value: int, width: int) -> None:
    """The kernel rejects a division by a known zero, and a shift past the width."""
    if op in (AluOp.DIV, AluOp.MOD) and value == 0:
        raise InstructionError("division by zero")
    if op in (AluOp.LSH, AluOp.RSH, AluOp.ARSH) and not 0 <= value < width:
        raise InstructionError(f"a shift by {value}")


def _swap(raw: _Raw, width: int) -> Swap:
    raw.only(dst=True, imm=True)
    if width == 64 or raw.imm not in (16, 32, 64):  # in ALU64: the unconditional byte swap of v4
        raise _unknown(raw)
    return Swap(raw.imm, bool(raw.code & _BY_REGISTER), raw.dst)


def _jump(raw: _Raw) -> Jump | JumpIf | Call | Exit:
    width = 64 if raw.code & 7 == _JMP else 32
    op = _JUMP_CODES.get(raw.code & 0xF0)
    if op is not None:
        return JumpIf(op, width, raw.dst, raw.operand(), raw.offset)
    match raw.code:
        case 0x05:
            raw.only(offset=True)
            return Jump(raw.offset)
        case 0x85:
            return _call(raw)
        case 0x95:
            raw.only()
            return Exit()
    raise _unknown(raw)


def _call(raw: _Raw) -> Call:
    raw.only(src=True, imm=True, offset=raw.src == CallKind.KFUNC.value)
    try:
        kind = CallKind(raw.src)
    except ValueError as error:
        raise _unknown(raw) from error
    return Call(kind, raw.imm, raw.offset)


_DECODERS: Mapping[int, Callable[[_Raw], Instruction]] = {
    _LDX: _load,
    _ST: _store_number,
    _STX: _store,
    _ALU: _alu,
    _ALU64: _alu,
    _JMP: _jump,
    _JMP32: _jump,
}


def encode(instruction: Instruction) -> bytes:
    """The bytes of an instruction: 16 for an LD_IMM64, 8 for all others."""
    match instruction:
        case Alu(op, width, dst, src):
            return _by_operand((_ALU64 if width == 64 else _ALU) | op, dst, src, 0)
        case Negate(width, dst):
            return _pack((_ALU64 if width == 64 else _ALU) | _NEG, dst)
        case Swap(bits, to_big, dst):
            return _pack(_ALU | _END | (_BY_REGISTER if to_big else 0), dst, imm=bits)
        case LoadWide(dst, kind, low, high):
            first = _pack(_LD | _IMM | _SIZE_CODES[8], dst, kind.value, imm=_as_signed(low))
            return first + _pack(0, imm=_as_signed(high))
        case Load(size, dst, base, offset):
            return _pack(_LDX | _MEM | _SIZE_CODES[size], dst, base, offset)
        case Store(size, base, offset, Imm(value)):
            return _pack(_ST | _MEM | _SIZE_CODES[size], base, 0, offset, value)
        case Store(size, base, offset, Reg(number)):
            return _pack(_STX | _MEM | _SIZE_CODES[size], base, number, offset)
        case Store():
            raise InstructionError(f"{instruction} stores neither a register nor a number")
        case Atomic(op, size, base, offset, source, fetch):
            imm = op | (_FETCH if fetch else 0)
            return _pack(_STX | _ATOMIC | _SIZE_CODES[size], base, source, offset, imm)
        case Jump(offset):
            return _pack(_JMP | _JA, offset=offset)
        case JumpIf(op, width, dst, src, offset):
            return _by_operand((_JMP if width == 64 else _JMP32) | op, dst, src, offset)
        case Call(kind, target, module):
            return _pack(_JMP | _CALL, 0, kind.value, module, target)
        case Exit():
            return _pack(_JMP | _EXIT)
    assert_never(instruction)


def _by_operand(code: int, dst: int, src: Operand, offset: int) -> bytes:
    if isinstance(src, Reg):
        return _pack(code | _BY_REGISTER, dst, src.number, offset)
    return _pack(code, dst, 0, offset, src.value)


def _pack(code: int, dst: int = 0, src: int = 0, offset: int = 0, imm: int = 0) -> bytes:
    return struct.pack("<BBhi", code, src << 4 | dst, offset, imm)


def _as_signed(word: int) -> int:
    return word - (word >> 31 << 32)
