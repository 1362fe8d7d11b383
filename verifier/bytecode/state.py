# SPDX-License-Identifier: Apache-2.0
"""The state of a run: registers, calls, memory, and the instruction that comes next."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from policyc.verifier.bytecode.errors import FaultError
from policyc.verifier.bytecode.instructions import FRAME_POINTER, N_REGISTERS
from policyc.verifier.bytecode.memory import Cells, Memory
from policyc.verifier.bytecode.pointers import (
    CONTEXT,
    Forgotten,
    Pointer,
    Region,
    StackFrame,
    Value,
)
from policyc.verifier.bytecode.values import Bits, Domain

STACK_SIZE = 512
MAX_CALLS = 8
"""The maximal number of frames, the entry's included (MAX_CALL_FRAMES)."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The return address of a call, and the registers that are restored."""

    function: str
    following: int
    saved: tuple[Value | None, ...]


@dataclass
class State:
    """The state. None in a register: it may not be read. Each step changes the state."""

    domain: Domain
    function: str
    at: int = 0
    registers: list[Value | None] = field(default_factory=lambda: [None] * N_REGISTERS)
    callers: tuple[Caller, ...] = ()
    memory: dict[Region, Memory] = field(default_factory=dict)

    def copy(self) -> "State":
        """An independent copy of the state."""
        memory = {region: each.copy() for region, each in self.memory.items()}
        return replace(self, registers=list(self.registers), memory=memory)

    @property
    def frame(self) -> StackFrame:
        """The stack of the running function."""
        return StackFrame(len(self.callers))

    def push_frame(self) -> None:
        """A new, unwritten stack for a function that is called."""
        self.memory[self.frame] = Cells(self.domain, -STACK_SIZE, 0)
        self.registers[FRAME_POINTER] = Pointer(self.frame)

    def read(self, register: int) -> Value:
        """The contents of a register. FaultError if nothing was written to it."""
        value = self.registers[register]
        if value is None:
            raise FaultError(f"r{register} is read and was not written")
        if isinstance(value, Pointer) and isinstance(value.region, Forgotten):
            raise FaultError(f"r{register} is read, and is one thing or another")
        return value

    def scalar(self, register: int) -> Bits:
        """The 64 bits of a register that does not hold a pointer."""
        value = self.read(register)
        if isinstance(value, Pointer):
            raise FaultError(f"r{register} is a pointer where a number is needed")
        return value

    def pointer(self, register: int) -> Pointer:
        """The pointer that a register holds, which is not null."""
        value = self.read(register)
        if not isinstance(value, Pointer):
            raise FaultError(f"r{register} is a number where a pointer is needed")
        return sure(value)

    def of(self, region: Region) -> Memory:
        """The memory of a region. FaultError if it has none, or none any more."""
        found = self.memory.get(region)
        if found is None:
            raise FaultError(f"{region} has no memory, or none any more")
        return found

    def load(self, pointer: Pointer, size: int) -> Value:
        """The `size` bytes at a pointer, for any size."""
        return self.of(sure(pointer).region).load(pointer.offset, size)

    def load_bits(self, pointer: Pointer, size: int) -> Bits:
        """The bits at a pointer, which must not be a pointer."""
        value = self.load(pointer, size)
        if isinstance(value, Pointer):
            raise FaultError("a pointer is read where bytes are needed")
        return value

    def store(self, pointer: Pointer, size: int, value: Value) -> None:
        """Write at a pointer."""
        region = sure(pointer).region
        if isinstance(value, Pointer) and isinstance(value.region, StackFrame):
            self._check_kept(region, value.region)
        self.of(region).store(pointer.offset, size, value)

    def _check_kept(self, into: Region, stack: StackFrame) -> None:
        """A stack's address may not be stored in memory that outlives the stack."""
        if not isinstance(into, StackFrame) or into.depth < stack.depth:
            raise FaultError(f"the address of {stack} is stored into {into}")

    def refine(self, region: Region, *, is_null: bool) -> None:
        """Record whether the pointers to a region are null: all of them, wherever they are stored."""

        def change(pointer: Pointer) -> Value:
            if pointer.region != region or pointer.null is False:
                return pointer
            return 0 if is_null else replace(pointer, null=False)

        self.rewrite_pointers(change)

    def rewrite_pointers(self, change: Callable[[Pointer], Value]) -> None:
        """Replace every pointer by the result of `change`."""

        def changed(value: Value | None) -> Value | None:
            return change(value) if isinstance(value, Pointer) else value

        self.registers = [changed(value) for value in self.registers]
        self.callers = tuple(
            replace(each, saved=tuple(changed(value) for value in each.saved))
            for each in self.callers
        )
        for memory in self.memory.values():
            memory.rewrite_pointers(change)


def sure(pointer: Pointer) -> Pointer:
    """The pointer, if it is known not to be null."""
    if pointer.null is not False:
        raise FaultError(f"a pointer to {pointer.region} is used and may be null")
    return pointer


def first_state(domain: Domain, function: str, context: Memory) -> State:
    """The state at the first instruction of a program: r1 is its context, r10 its stack."""
    state = State(domain, function)
    state.memory[CONTEXT] = context
    state.registers[1] = Pointer(CONTEXT)
    state.push_frame()
    return state
