# SPDX-License-Identifier: Apache-2.0
"""No loop falls through to its beginning: Linux 6.1 accepts only jumps back.

check_cfg() of kernel/bpf/verifier.c walks depth first and visits the next instruction before the
jump target. It refuses a fall-through to an instruction that is on its path ("back-edge").
"""

from collections.abc import Iterator

import pytest

from policyc.compiler.driver.compile.target import NODE_OBJECTS
from policyc.verifier.bytecode.instructions import Jump, JumpIf
from policyc.verifier.bytecode.object import read_object
from policyc.verifier.bytecode.program import Function, link_program, successors
from tests.slices import one_in
from tests.unit.verifier.bytecode.objects import (
    CASES,
    SomeKernel,
    policy_object,
    prebuilt,
)


def falls_back(function: Function) -> Iterator[tuple[int, int]]:
    """Steps to an instruction that the walk came by, of instructions that are no jumps."""
    came_by: set[int] = set()
    done: set[int] = set()
    work: list[tuple[int, list[int]]] = []

    def enter(at: int) -> None:
        came_by.add(at)
        work.append((at, sorted(successors(at, function.code[at]))))

    enter(min(function.code))
    while work:
        at, following = work[-1]
        if not following:
            work.pop()
            came_by.remove(at)
            done.add(at)
            continue
        to = following.pop(0)
        if to in came_by and not isinstance(function.code[at], Jump | JumpIf):
            yield at, to
        if to not in came_by and to not in done:
            enter(to)


def found_in(data: bytes) -> list[tuple[str, int, int]]:
    read = read_object(data)
    layouts = SomeKernel()
    return [
        (name, *step)
        for entry in read.entries
        for name, function in link_program(read, entry, layouts).functions.items()
        for step in falls_back(function)
    ]


@pytest.mark.parametrize("name", NODE_OBJECTS)
def test_no_loop_of_the_hooks_is_entered_by_fall_through(name: str) -> None:
    assert found_in(prebuilt(name)) == []


@pytest.mark.parametrize("case", one_in(3, CASES))
def test_no_loop_of_a_first_packet_program_is_entered_by_fall_through(case: str) -> None:
    assert found_in(policy_object(case)) == []
