# SPDX-License-Identifier: Apache-2.0
"""No call chain uses more stack than the oldest supported kernel allows: 512 bytes in all.

Linux 6.1 rounds the frame of each function up to 32 bytes and adds the frames of a chain, including
functions that are verified separately (check_max_stack_depth() of kernel/bpf/verifier.c).
"""

from collections.abc import Mapping

import pytest

from policyc.compiler.driver.compile.target import NODE_OBJECTS
from policyc.verifier.bytecode.instructions import (
    FRAME_POINTER,
    Alu,
    AluOp,
    Atomic,
    Imm,
    Load,
    Reg,
    Store,
)
from policyc.verifier.bytecode.linked import CallFunction
from policyc.verifier.bytecode.object import read_object
from policyc.verifier.bytecode.program import Function, Program, link_program
from tests.unit.verifier.bytecode.objects import (
    CASES,
    SomeKernel,
    policy_object,
    prebuilt,
)

MOST = 512
MOST_FRAMES = 8
ROUNDED_TO = 32


def deepest(function: Function) -> int:
    """Bytes below the frame pointer that a function names: from there on objects lie upwards."""
    depth = 0
    copies: set[int] = set()  # registers that hold the frame pointer, between two instructions
    for at in sorted(function.code):
        match function.code[at]:
            case Load(base=base, offset=offset) | Store(base=base, offset=offset):
                depth = max(depth, -offset if base == FRAME_POINTER else 0)
            case Atomic(base=base, offset=offset):
                depth = max(depth, -offset if base == FRAME_POINTER else 0)
            case Alu(AluOp.MOV, 64, dst, Reg(number)) if number == FRAME_POINTER:
                copies.add(dst)
            case Alu(AluOp.ADD, 64, dst, Imm(value)) if dst in copies:
                depth = max(depth, -value)
                copies.discard(dst)
            case Alu(dst=dst):
                copies.discard(dst)
    assert not copies, f"{function.name}: a copy of the frame pointer is not read here"
    return depth


def chain(program: Program, name: str) -> tuple[int, tuple[str, ...]]:
    """The deepest chain of calls from a function on: bytes, and its functions."""
    depths: dict[str, tuple[int, tuple[str, ...]]] = {}

    def below(name: str, callers: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        assert name not in callers, f"{name} calls itself"
        if name not in depths:
            function = program.functions[name]
            called = {i.name for i in function.code.values() if isinstance(i, CallFunction)}
            deeper = [below(each, (*callers, name)) for each in sorted(called)]
            size, names = max(deeper, default=(0, ()))
            frame = -(-max(deepest(function), 1) // ROUNDED_TO) * ROUNDED_TO
            depths[name] = frame + size, (name, *names)
        return depths[name]

    return below(name, ())


def depths_of(data: bytes) -> Mapping[str, tuple[int, tuple[str, ...]]]:
    """Of each program of an object."""
    read = read_object(data)
    layouts = SomeKernel()
    return {name: chain(link_program(read, name, layouts), name) for name in read.entries}


@pytest.mark.parametrize("name", NODE_OBJECTS)
def test_hooks_fit_into_the_stack(name: str) -> None:
    for entry, (size, names) in depths_of(prebuilt(name)).items():
        assert size <= MOST and len(names) <= MOST_FRAMES, f"{entry}: {size} by {names}"


@pytest.mark.parametrize("case", CASES)
def test_policies_fit_into_the_stack(case: str) -> None:
    for entry, (size, names) in depths_of(policy_object(case)).items():
        assert size <= MOST and len(names) <= MOST_FRAMES, f"{entry}: {size} by {names}"
