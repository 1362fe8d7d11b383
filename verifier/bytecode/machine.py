# SPDX-License-Identifier: Apache-2.0
"""The effect of each instruction on a state: the only definition, for numbers and terms (RFC 9669).

`step` runs one instruction. If a condition is not known, it leaves the state unchanged and gives a
`Branch`; the caller copies the state and takes both branches. The `Environment` defines what helpers do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from policyc.verifier.bytecode.comparison import compare
from policyc.verifier.bytecode.errors import FaultError, UnmodelledError
from policyc.verifier.bytecode.instructions import (
    FRAME_POINTER,
    Alu,
    AluOp,
    Atomic,
    AtomicOp,
    Exit,
    Imm,
    Jump,
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
    Poisoned,
)
from policyc.verifier.bytecode.pointers import MapReference, Pointer, Region, StackFrame, Value
from policyc.verifier.bytecode.state import MAX_CALLS, Caller, State, sure
from policyc.verifier.bytecode.values import Bits, Cmp, Op, Truth, mask

_CLOBBERED = range(1, 6)
_SAVED = range(6, 10)
_OPS = {
    AluOp.ADD: Op.ADD,
    AluOp.SUB: Op.SUB,
    AluOp.MUL: Op.MUL,
    AluOp.DIV: Op.UDIV,
    AluOp.OR: Op.OR,
    AluOp.AND: Op.AND,
    AluOp.LSH: Op.SHL,
    AluOp.RSH: Op.LSHR,
    AluOp.MOD: Op.UMOD,
    AluOp.XOR: Op.XOR,
    AluOp.ARSH: Op.ASHR,
}
_ATOMIC_OPS = {
    AtomicOp.ADD: Op.ADD,
    AtomicOp.OR: Op.OR,
    AtomicOp.AND: Op.AND,
    AtomicOp.XOR: Op.XOR,
}


@dataclass(frozen=True, slots=True)
class Called:
    """The result of a helper; None: nothing that may be read."""

    result: Value | None


@dataclass(frozen=True, slots=True)
class TailCall:
    """The program continues as the one at an index of a program array, if there is one.

    If there is none, it continues after the call; the state is already there.
    """

    map: str
    index: Bits


@dataclass(frozen=True, slots=True)
class Exited:
    """The program's end, with r0."""

    result: Bits


@dataclass(frozen=True, slots=True)
class Branch:
    """A condition that is not known. `subject`: it decides whether pointers to a region are null."""

    condition: Truth
    taken: int
    following: int
    subject: Region | None = None
    is_null_if_taken: bool = False

    def go(self, state: State, *, is_taken: bool) -> None:
        """Continue a state on the branch where the condition holds, or where it does not."""
        state.at = self.taken if is_taken else self.following
        if self.subject is not None:
            state.refine(self.subject, is_null=self.is_null_if_taken == is_taken)


Outcome = Branch | TailCall | Exited | None


class Environment(ABC):
    """The environment of a program: helpers, kfuncs, data sections. Arguments are in r1 to r5."""

    @abstractmethod
    def call(self, state: State, helper: int) -> Called | TailCall:
        """Apply a helper to memory. UnmodelledError for one that is not known."""

    @abstractmethod
    def kfunc(self, state: State, name: str) -> Called:
        """Apply a kernel function to memory."""

    @abstractmethod
    def map_value(self, state: State, name: str) -> Pointer:
        """The only value of a data section's map."""


def step(state: State, instruction: Linked, environment: Environment) -> Outcome:
    """Run the instruction at `state.at`; the state is changed."""
    return _STEPS[type(instruction)](state, instruction, environment)


def _write(state: State, register: int, value: Value) -> None:
    if register == FRAME_POINTER:
        raise FaultError("r10 is written")
    state.registers[register] = value


def _operand(state: State, src: Operand, width: int) -> Value:
    """An operand: 64 bits if it is a register, else `width` bits."""
    return state.read(src.number) if isinstance(src, Reg) else src.value & mask(width)


# --- computing ----------------------------------------------------------------------------------


def _alu(state: State, i: Alu, _: Environment) -> None:
    state.at += 1
    if i.op is AluOp.MOV:
        _write(state, i.dst, _moved(state, i))
        return
    a, b = state.read(i.dst), _operand(state, i.src, i.width)
    if isinstance(a, Pointer) or isinstance(b, Pointer):
        _write(state, i.dst, _pointer_alu(state, i, a, b))
        return
    domain = state.domain
    if i.width == 64:
        _write(state, i.dst, domain.binary(_OPS[i.op], a, b, 64))
        return
    low = domain.truncate(a, 32, 64)
    other = domain.truncate(b, 32, 64) if isinstance(i.src, Reg) else b
    _write(state, i.dst, domain.zero_extend(domain.binary(_OPS[i.op], low, other, 32), 32, 64))


def _moved(state: State, i: Alu) -> Value:
    if isinstance(i.src, Imm):
        return i.src.value & mask(i.width)
    value = state.read(i.src.number)
    if i.width == 64:
        return value
    if isinstance(value, Pointer):
        raise FaultError("half of a pointer is moved")
    return state.domain.zero_extend(state.domain.truncate(value, 32, 64), 32, 64)


def _pointer_alu(state: State, i: Alu, a: Value, b: Value) -> Value:
    """Pointer arithmetic: add a number, subtract a number, subtract pointers to one region."""
    domain = state.domain
    if i.width == 64:
        match i.op, a, b:
            case AluOp.SUB, Pointer(), Pointer() if sure(a).region == sure(b).region:
                return domain.binary(Op.SUB, a.offset, b.offset, 64)
            case _, Pointer(), Pointer():
                pass
            case AluOp.ADD | AluOp.SUB, Pointer(), _ if not isinstance(b, Pointer):
                return _moved_pointer(state, a, _OPS[i.op], b)
            case AluOp.ADD, _, Pointer() if not isinstance(a, Pointer):
                return _moved_pointer(state, b, Op.ADD, a)
    raise FaultError(f"{i.op.name} in {i.width} bits of {a} and {b}")


def _moved_pointer(state: State, pointer: Pointer, op: Op, by: Bits) -> Pointer:
    if isinstance(sure(pointer).region, MapReference):
        raise FaultError("arithmetic on a map's address")
    return Pointer(pointer.region, state.domain.binary(op, pointer.offset, by, 64))


def _negate(state: State, i: Negate, _: Environment) -> None:
    state.at += 1
    value, domain = state.scalar(i.dst), state.domain
    low = domain.truncate(value, i.width, 64)
    _write(state, i.dst, domain.zero_extend(domain.negate(low, i.width), i.width, 64))


def _swap(state: State, i: Swap, _: Environment) -> None:
    """The machine is little-endian: conversion to big-endian swaps the bytes."""
    state.at += 1
    domain = state.domain
    low = domain.truncate(state.scalar(i.dst), i.bits, 64)
    ordered = domain.swap(low, i.bits) if i.to_big else low
    _write(state, i.dst, domain.zero_extend(ordered, i.bits, 64))


def _load_number(state: State, i: LoadNumber, _: Environment) -> None:
    state.at += 2
    _write(state, i.dst, i.value)


def _load_map(state: State, i: LoadMap, _: Environment) -> None:
    state.at += 2
    _write(state, i.dst, Pointer(MapReference(i.map)))


def _load_map_value(state: State, i: LoadMapValue, environment: Environment) -> None:
    state.at += 2
    base = environment.map_value(state, i.map)
    _write(state, i.dst, _moved_pointer(state, base, Op.ADD, i.offset))


# --- memory -------------------------------------------------------------------------------------


def _address(state: State, base: int, offset: int) -> Pointer:
    pointer = state.pointer(base)
    if offset == 0:
        return pointer
    return _moved_pointer(state, pointer, Op.ADD, offset & mask(64))


def _load(state: State, i: Load, _: Environment) -> None:
    state.at += 1
    value = state.load(_address(state, i.base, i.offset), i.size)
    if not isinstance(value, Pointer):
        value = state.domain.zero_extend(value, 8 * i.size, 64)
    _write(state, i.dst, value)


def _store(state: State, i: Store, _: Environment) -> None:
    state.at += 1
    value = _operand(state, i.src, 64)
    if isinstance(value, Pointer):
        if i.size != 8:
            raise FaultError("a part of a pointer is stored")
    else:
        value = state.domain.truncate(value, 8 * i.size, 64)
    state.store(_address(state, i.base, i.offset), i.size, value)


def _atomic(state: State, i: Atomic, _: Environment) -> None:
    state.at += 1
    domain, width = state.domain, 8 * i.size
    address = _address(state, i.base, i.offset)
    old = state.load_bits(address, i.size)
    given = domain.truncate(state.scalar(i.src), width, 64)
    if i.op is AtomicOp.XCHG:
        new = given
    elif i.op is AtomicOp.CMPXCHG:
        expected = domain.truncate(state.scalar(0), width, 64)
        new = domain.choose(domain.compare(Cmp.EQ, old, expected, width), given, old, width)
    else:
        new = domain.binary(_ATOMIC_OPS[i.op], old, given, width)
    state.store(address, i.size, new)
    if i.fetch:
        into = 0 if i.op is AtomicOp.CMPXCHG else i.src
        _write(state, into, domain.zero_extend(old, width, 64))


# --- going on elsewhere -------------------------------------------------------------------------


def _jump(state: State, i: Jump, _: Environment) -> None:
    state.at += 1 + i.offset


def _jump_if(state: State, i: JumpIf, _: Environment) -> Outcome:
    found = compare(state, i)
    following, taken = state.at + 1, state.at + 1 + i.offset
    branch = Branch(found.condition, taken, following, found.subject, found.is_null_if_true)
    if isinstance(found.condition, bool):
        branch.go(state, is_taken=found.condition)
        return None
    return branch


def _call_helper(state: State, i: CallHelper, environment: Environment) -> Outcome:
    return _called(state, environment.call(state, i.number))


def _call_kfunc(state: State, i: CallKfunc, environment: Environment) -> Outcome:
    return _called(state, environment.kfunc(state, i.name))


def _called(state: State, outcome: Called | TailCall) -> Outcome:
    state.at += 1
    _forget(state, _CLOBBERED)
    state.registers[0] = outcome.result if isinstance(outcome, Called) else None
    return outcome if isinstance(outcome, TailCall) else None


def _forget(state: State, registers: range) -> None:
    for register in registers:
        state.registers[register] = None


def _call_function(state: State, i: CallFunction, _: Environment) -> None:
    if len(state.callers) + 1 >= MAX_CALLS:
        raise FaultError(f"calls are nested {MAX_CALLS} deep")
    saved = tuple(state.registers[register] for register in _SAVED)
    state.callers = (*state.callers, Caller(state.function, state.at + 1, saved))
    _forget(state, _SAVED)
    state.registers[0] = None
    state.function, state.at = i.name, 0
    state.push_frame()


def _exit(state: State, _: Exit, __: Environment) -> Outcome:
    if not state.callers:
        return Exited(state.scalar(0))
    result = state.registers[0]
    if isinstance(result, Pointer) and result.region == state.frame:
        raise FaultError("the address of a stack is returned that goes away")
    del state.memory[state.frame]
    *before, caller = state.callers
    state.callers = tuple(before)
    state.registers[FRAME_POINTER] = Pointer(StackFrame(len(before)))
    for register, value in zip(_SAVED, caller.saved, strict=True):
        state.registers[register] = value
    _forget(state, _CLOBBERED)
    state.function, state.at = caller.function, caller.following
    return None


def _poisoned(_: State, i: Poisoned, __: Environment) -> Outcome:
    raise UnmodelledError(i.why)


_STEPS: Mapping[type, Callable[[State, Any, Environment], Outcome]] = {
    Alu: _alu,
    Negate: _negate,
    Swap: _swap,
    LoadNumber: _load_number,
    LoadMap: _load_map,
    LoadMapValue: _load_map_value,
    Load: _load,
    Store: _store,
    Atomic: _atomic,
    Jump: _jump,
    JumpIf: _jump_if,
    CallHelper: _call_helper,
    CallKfunc: _call_kfunc,
    CallFunction: _call_function,
    Exit: _exit,
    Poisoned: _poisoned,
}
