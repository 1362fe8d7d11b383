# SPDX-License-Identifier: Apache-2.0
"""Instructions as they are loaded: maps, functions and kfuncs by their names."""

from dataclasses import dataclass
from typing import TypeAlias

from policyc.verifier.bytecode.instructions import (
    Alu,
    Atomic,
    Exit,
    Jump,
    JumpIf,
    Load,
    Negate,
    Store,
    Swap,
)


@dataclass(frozen=True, slots=True)
class LoadNumber:
    """dst = a number of 64 bits."""

    dst: int
    value: int


@dataclass(frozen=True, slots=True)
class LoadMap:
    """dst = a reference to a map, which helpers take."""

    dst: int
    map: str


@dataclass(frozen=True, slots=True)
class LoadMapValue:
    """dst = the address of a byte in the only value of a data section's map."""

    dst: int
    map: str
    offset: int


@dataclass(frozen=True, slots=True)
class CallHelper:
    """r0 = helper(r1, ...), by its number (BPF_FUNC_*)."""

    number: int


@dataclass(frozen=True, slots=True)
class CallFunction:
    """r0 = a function of the same object, with a stack frame of its own."""

    name: str


@dataclass(frozen=True, slots=True)
class CallKfunc:
    """r0 = a function of the kernel, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Poisoned:
    """An instruction that refers to something the kernel lacks, as the loader rewrites it.

    Or to an address that only the kernel knows. It must not be reached.
    """

    why: str
    size: int = 1
    """In slots."""


Linked: TypeAlias = (
    Alu
    | Negate
    | Swap
    | Load
    | Store
    | Atomic
    | Jump
    | JumpIf
    | Exit
    | LoadNumber
    | LoadMap
    | LoadMapValue
    | CallHelper
    | CallFunction
    | CallKfunc
    | Poisoned
)


def linked_slots(instruction: Linked) -> int:
    """The number of slots of eight bytes that an instruction takes."""
    if isinstance(instruction, Poisoned):
        return instruction.size
    return 2 if isinstance(instruction, (LoadNumber, LoadMap, LoadMapValue)) else 1
