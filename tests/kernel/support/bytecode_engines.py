# SPDX-License-Identifier: Apache-2.0
"""A random program run twice: by the kernel, and by the executor on numbers, from the same bytes."""

import ctypes
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from policyc.runtime.kernel import bpf_syscall
from policyc.verifier.bytecode.concrete import Around, run
from policyc.verifier.bytecode.definitions import MapDefinition, MapKind
from policyc.verifier.bytecode.encoding import decode
from policyc.verifier.bytecode.instructions import Call, CallKind, Instruction, LoadWide, Pseudo
from policyc.verifier.bytecode.linked import (
    CallFunction,
    CallHelper,
    Linked,
    LoadMap,
    LoadNumber,
)
from policyc.verifier.bytecode.program import Function, Program

SCHED_CLS = 3
FRAME = bytes(64)
_LOG = 1 << 20


@dataclass(frozen=True)
class Ran:
    """What a run gave, and what its array maps hold then."""

    result: int
    maps: Mapping[str, tuple[bytes, ...]]


def array(name: str, value_size: int, entries: int = 1) -> MapDefinition:
    return MapDefinition(name, MapKind.ARRAY, 4, value_size, entries)


@contextmanager
def kernel_maps(definitions: Mapping[str, MapDefinition]) -> Iterator[dict[str, int]]:
    """Descriptors of maps that were made for this."""
    with ExitStack() as owned:
        yield {name: owned.enter_context(_made(each)) for name, each in definitions.items()}


def _made(definition: MapDefinition) -> bpf_syscall.Fd:
    sizes = definition.key_size, definition.value_size, definition.max_entries
    attr = struct.pack("=IIIII", definition.kind, *sizes, definition.flags) + bytes(60)
    return bpf_syscall.Fd(bpf_syscall.bpf(bpf_syscall.MAP_CREATE, attr))


def load(code: bytes) -> bpf_syscall.Fd:
    """Load a program of tc; AssertionError with the end of what the verifier says."""
    program = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"GPL")
    log = ctypes.create_string_buffer(_LOG)

    def attr(level: int) -> bytes:
        logged = (level, _LOG, ctypes.addressof(log)) if level else (0, 0, 0)
        addresses = ctypes.addressof(program), ctypes.addressof(licence)
        return struct.pack("=IIQQIIQ", SCHED_CLS, len(code) // 8, *addresses, *logged) + bytes(80)

    try:
        return bpf_syscall.Fd(bpf_syscall.bpf(bpf_syscall.PROG_LOAD, attr(0)))
    except OSError:
        try:
            return bpf_syscall.Fd(bpf_syscall.bpf(bpf_syscall.PROG_LOAD, attr(1)))
        except OSError as refused:
            said = log.value.decode(errors="replace").splitlines()[-6:]
            raise AssertionError(f"the kernel refuses a random program: {said}") from refused


def by_kernel(
    code: bytes,
    descriptors: Mapping[str, int],
    definitions: Mapping[str, MapDefinition],
    given: Mapping[str, tuple[bytes, ...]],
) -> Ran:
    for name, values in given.items():
        for at, value in enumerate(values):
            bpf_syscall.map_update(descriptors[name], struct.pack("=I", at), value)
    with load(code) as program:
        result = bpf_syscall.prog_test_run(program, FRAME) & 0xFFFFFFFF
    return Ran(
        result, {name: _values(descriptors[name], each) for name, each in definitions.items()}
    )


def _values(descriptor: int, definition: MapDefinition) -> tuple[bytes, ...]:
    found = (
        bpf_syscall.map_lookup(descriptor, struct.pack("=I", at), definition.value_size)
        for at in range(definition.max_entries)
    )
    return tuple(value or b"" for value in found)


def by_executor(
    program: Program,
    definitions: Mapping[str, MapDefinition],
    given: Mapping[str, tuple[bytes, ...]],
) -> Ran:
    around = Around(program)
    for name, values in given.items():
        for at, value in enumerate(values):
            around.map(name).put(struct.pack("<I", at), value)
    result = run(around, FRAME).result
    assert isinstance(result, int)
    maps = {
        name: tuple(
            around.map(name).get(struct.pack("<I", at)) or b"" for at in range(each.max_entries)
        )
        for name, each in definitions.items()
    }
    return Ran(result, maps)


def program_of(
    code: bytes,
    starts: tuple[int, ...],
    descriptors: Mapping[str, int],
    definitions: Mapping[str, MapDefinition],
) -> Program:
    """The executor's program from the bytes that the kernel loads; `starts` has the end at its end."""
    names = {at: f"function_{number}" for number, at in enumerate(starts[:-1])}
    maps = {descriptor: name for name, descriptor in descriptors.items()}
    decoded = decode(code)
    functions = {
        name: Function(
            name,
            {
                slot - start: _linked(slot, decoded[slot], names, maps)
                for slot in range(start, end)
                if slot in decoded
            },
        )
        for (start, name), end in zip(names.items(), starts[1:], strict=True)
    }
    return Program("function_0", functions, dict(definitions))


def _linked(
    slot: int, each: Instruction, names: Mapping[int, str], maps: Mapping[int, str]
) -> Linked:
    match each:
        case LoadWide(dst, Pseudo.MAP, descriptor):
            return LoadMap(dst, maps[descriptor])
        case LoadWide(dst, Pseudo.NUMBER, low, high):
            return LoadNumber(dst, high << 32 | low)
        case LoadWide():
            raise AssertionError(each)
        case Call(CallKind.HELPER, number):
            return CallHelper(number)
        case Call(CallKind.LOCAL, offset):
            return CallFunction(names[slot + 1 + offset])
        case Call():
            raise AssertionError(each)
    return each
