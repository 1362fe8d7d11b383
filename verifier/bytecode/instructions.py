# SPDX-License-Identifier: Apache-2.0
"""The instructions of BPF's ISA, version 3, as values (RFC 9669; what clang emits for -mcpu=v3).

Jumps and local calls are relative to the next instruction, in slots of eight bytes, as they are encoded.
`decode` gives each instruction by its slot. Everything else (version 4, the packet access of classic
BPF, reserved bits that are set) is an `InstructionError`.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TypeAlias

SLOT = 8
FRAME_POINTER = 10
N_REGISTERS = 11


class AluOp(IntEnum):
    """ALU operations by their code.

    NEG and END have no such operand and are instructions of their own.
    """

    ADD = 0x00
    SUB = 0x10
    MUL = 0x20
    DIV = 0x30
    OR = 0x40
    AND = 0x50
    LSH = 0x60
    RSH = 0x70
    MOD = 0x90
    XOR = 0xA0
    MOV = 0xB0
    ARSH = 0xC0


class JumpOp(IntEnum):
    """Jump conditions by their code."""

    JEQ = 0x10
    JGT = 0x20
    JGE = 0x30
    JSET = 0x40
    JNE = 0x50
    JSGT = 0x60
    JSGE = 0x70
    JLT = 0xA0
    JLE = 0xB0
    JSLT = 0xC0
    JSLE = 0xD0


class AtomicOp(IntEnum):
    """Atomic operations by the immediate, without BPF_FETCH."""

    ADD = 0x00
    OR = 0x40
    AND = 0x50
    XOR = 0xA0
    XCHG = 0xE0
    CMPXCHG = 0xF0


class Pseudo(Enum):
    """The meaning of the 64 bits of an LD_IMM64, by its source register."""

    NUMBER = 0
    MAP = 1
    MAP_VALUE = 2
    VARIABLE = 3
    FUNCTION = 4
    MAP_INDEX = 5
    MAP_INDEX_VALUE = 6


class CallKind(Enum):
    """The callee of a CALL, by its source register."""

    HELPER = 0
    LOCAL = 1
    KFUNC = 2


@dataclass(frozen=True, slots=True)
class Reg:
    """The value of a register."""

    number: int


@dataclass(frozen=True, slots=True)
class Imm:
    """A signed 32-bit number, which is extended to the operand's width."""

    value: int


Operand: TypeAlias = Reg | Imm


@dataclass(frozen=True, slots=True)
class Alu:
    """dst = dst op src (MOV: dst = src), in 32 bits (which clears the upper ones) or 64."""

    op: AluOp
    width: int
    dst: int
    src: Operand


@dataclass(frozen=True, slots=True)
class Negate:
    """dst = -dst."""

    width: int
    dst: int


@dataclass(frozen=True, slots=True)
class Swap:
    """dst = its lowest 16, 32 or 64 bits in big- or little-endian order; the rest is cleared."""

    bits: int
    to_big: bool
    dst: int


@dataclass(frozen=True, slots=True)
class LoadWide:
    """dst = 64 bits from two slots: `low` and `high` hold 32 bits each."""

    dst: int
    kind: Pseudo
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Load:
    """dst = the `size` bytes at base + offset, extended by zeros."""

    size: int
    dst: int
    base: int
    offset: int


@dataclass(frozen=True, slots=True)
class Store:
    """The `size` bytes at base + offset = src."""

    size: int
    base: int
    offset: int
    src: Operand


@dataclass(frozen=True, slots=True)
class Atomic:
    """Memory at base + offset = memory op src, atomically.

    `fetch`: src (CMPXCHG: r0) = the old value.
    """

    op: AtomicOp
    size: int
    base: int
    offset: int
    src: int
    fetch: bool


@dataclass(frozen=True, slots=True)
class Jump:
    """Jump `offset` slots forward."""

    offset: int


@dataclass(frozen=True, slots=True)
class JumpIf:
    """Jump if `dst op src` holds, on 32 bits or 64."""

    op: JumpOp
    width: int
    dst: int
    src: Operand
    offset: int


@dataclass(frozen=True, slots=True)
class Call:
    """r0 = a function of r1 to r5. `target`: a helper's number, an offset in slots, or a BTF id."""

    kind: CallKind
    target: int
    module: int = 0  # for a kfunc: the index of its BTF


@dataclass(frozen=True, slots=True)
class Exit:
    """Return r0."""


Instruction: TypeAlias = (
    Alu | Negate | Swap | LoadWide | Load | Store | Atomic | Jump | JumpIf | Call | Exit
)


def slots(instruction: object) -> int:
    """The number of slots of eight bytes that an instruction takes."""
    return 2 if isinstance(instruction, LoadWide) else 1
