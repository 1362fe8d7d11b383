# SPDX-License-Identifier: Apache-2.0
"""Run a program on numbers to its end: a context, a packet, maps, and an oracle for the rest."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from policyc.ir.errors import InternalError
from policyc.verifier.bytecode.context import SKB, ContextMemory, Layout
from policyc.verifier.bytecode.definitions import MapKind
from policyc.verifier.bytecode.errors import (
    BytecodeError,
    StepLimitError,
    UnmodelledError,
)
from policyc.verifier.bytecode.helpers import (
    ASKED,
    CHANGES_PACKET,
    MODELS,
    WRITES,
    helper,
)
from policyc.verifier.bytecode.machine import (
    Branch,
    Called,
    Environment,
    TailCall,
    step,
)
from policyc.verifier.bytecode.maps import Map, empty_map
from policyc.verifier.bytecode.memory import Bytes
from policyc.verifier.bytecode.oracle import NoOracle, Oracle
from policyc.verifier.bytecode.pointers import CONTEXT, Packet, Pointer
from policyc.verifier.bytecode.program import Program
from policyc.verifier.bytecode.ring_buffer import RingBuffer
from policyc.verifier.bytecode.state import State, first_state
from policyc.verifier.bytecode.values import NUMBERS, mask, number

STEP_LIMIT = 1_000_000
"""The instruction limit of the kernel's verifier."""


@dataclass
class Around(Environment):
    """The environment of one program; maps are made on first use, and stay."""

    program: Program
    maps: dict[str, Map] = field(default_factory=dict)
    oracle: Oracle = field(default_factory=NoOracle)
    rings: dict[str, RingBuffer] = field(default_factory=dict)

    def map(self, name: str) -> Map:
        """A map of the program; an empty one on its first use."""
        if name not in self.maps:
            self.maps[name] = empty_map(self.program.maps[name])
        return self.maps[name]

    def ring(self, name: str) -> RingBuffer:
        """A ring buffer of the program; an empty one on its first use."""
        definition = self.program.maps[name]
        if definition.kind is not MapKind.RINGBUF:
            raise UnmodelledError(f"{name} is no ring buffer")
        return self.rings.setdefault(name, RingBuffer(definition))

    def call(self, state: State, number: int) -> Called | TailCall:
        """Call a helper: by its model, or by the oracle."""
        known = helper(number)
        model = MODELS.get(known)
        if model is not None:
            return model(self, state)
        if known not in ASKED:
            raise UnmodelledError(f"{known.name} has no model")
        return self._asked(state, known.name, WRITES.get(known), known in CHANGES_PACKET)

    def kfunc(self, state: State, name: str) -> Called:
        """Call a kfunc: the oracle answers."""
        return self._asked(state, name)

    def _asked(
        self, state: State, name: str, writes: int | None = None, changes_packet: bool = False
    ) -> Called:
        answer = self.oracle.answer(state, name)
        if writes is not None and writes not in answer.written:
            raise UnmodelledError(f"{name}: no model says what it wrote behind r{writes}")
        for register, data in answer.written.items():
            size = len(data)
            state.store(state.pointer(register), size, int.from_bytes(data, "little"))
        if changes_packet or answer.packet is not None:
            data = self.packet(state) if answer.packet is None else answer.packet
            self.replace_packet(state, data)
        state.memory.update(answer.memory)
        result = answer.result
        return Called(result & mask(64) if isinstance(result, int) else result)

    def map_value(self, state: State, name: str) -> Pointer:
        """The value of a data section."""
        found = self.map(name).lookup(state, bytes(4))
        if not isinstance(found, Pointer):
            raise UnmodelledError(f"{name} has no value")
        return found

    def packet(self, state: State) -> bytes:
        """The whole packet: packets are linear here."""
        memory = state.of(_context(state).packet or Packet())
        if not isinstance(memory, Bytes):
            raise UnmodelledError("a packet that is not of numbers")
        return bytes(memory.data)

    def replace_packet(self, state: State, data: bytes) -> None:
        """Replace the packet by a new generation, in other memory."""
        context = _context(state)
        if context.packet is None:
            raise UnmodelledError("there is no packet")
        del state.memory[context.packet]
        _set_packet(state, context, Packet(context.packet.generation + 1), data)


def _context(state: State) -> ContextMemory:
    memory = state.of(CONTEXT)
    if not isinstance(memory, ContextMemory):
        raise UnmodelledError("a context of another kind")
    return memory


def _set_packet(state: State, context: ContextMemory, packet: Packet, data: bytes) -> None:
    state.memory[packet] = Bytes(data)
    context.packet, context.length = packet, len(data)
    if "len" in context.layout.fields:
        context.set("len", len(data))


@dataclass(frozen=True)
class Ended:
    """The end of a run: its 32-bit result, or the tail call into another program; the final state."""

    result: int | TailCall
    state: State
    steps: int

    @property
    def packet(self) -> bytes:
        """The packet at the end of the run."""
        memory = self.state.of(_context(self.state).packet or Packet())
        return bytes(memory.data) if isinstance(memory, Bytes) else b""


def run(
    around: Around,
    packet: bytes | None = None,
    fields: Mapping[str, int] | None = None,
    layout: Layout = SKB,
    limit: int = STEP_LIMIT,
) -> Ended:
    """Run a program on a context with these fields. FaultError where the kernel would have refused it.

    A tail call ends the run. The caller knows whether the program array has a program at that index. If
    it has none, the caller continues with `resume`.
    """
    context = ContextMemory(NUMBERS, layout)
    state = first_state(NUMBERS, around.program.entry, context)
    for name, value in (fields or {}).items():
        context.set(name, value)
    if packet is not None:
        _set_packet(state, context, Packet(), packet)
    return resume(around, state, limit)


def go_on(around: Around, left: Ended, limit: int = STEP_LIMIT) -> Ended:
    """Continue at the target of a tail call: another program, the same context and packet."""
    context = _context(left.state)
    state = first_state(NUMBERS, around.program.entry, context)
    if context.packet is not None:
        state.memory[context.packet] = left.state.of(context.packet)
    return resume(around, state, limit)


def resume(around: Around, state: State, limit: int = STEP_LIMIT) -> Ended:
    """Continue from a state, for at most `limit` instructions."""
    functions = around.program.functions
    for steps in range(1, limit + 1):
        instruction = functions[state.function].code[state.at]
        try:
            outcome = step(state, instruction, around)
        except BytecodeError as error:
            place = f"{state.function}, before slot {state.at}: {instruction}"
            raise type(error)(f"{place}: {error}") from error
        if outcome is None:
            continue
        if isinstance(outcome, Branch):
            raise InternalError(f"{outcome} where everything is a number")
        result = outcome if isinstance(outcome, TailCall) else number(outcome.result) & mask(32)
        return Ended(result, state, steps)
    raise StepLimitError(f"{around.program.entry} has not ended after {limit} instructions")
