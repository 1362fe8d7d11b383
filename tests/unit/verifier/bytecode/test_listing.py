# SPDX-License-Identifier: Apache-2.0
"""Code as text: each instruction has a line of its own that no other one has."""

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
from policyc.verifier.bytecode.listing import listing, text
from policyc.verifier.bytecode.object import read_object
from policyc.verifier.bytecode.program import link_program
from tests.unit.verifier.bytecode.every_instruction import EVERY
from tests.unit.verifier.bytecode.objects import prebuilt

LINKED: list[Linked] = [
    LoadNumber(1, 1 << 63),
    LoadMap(1, "pc_ct4"),
    LoadMapValue(1, ".rodata", 8),
    CallHelper(1),
    CallFunction("pc_parse"),
    CallKfunc("bpf_cast_to_kern_ctx"),
    Poisoned("no such field"),
]


def test_no_two_instructions_read_alike() -> None:
    for instructions in (EVERY, LINKED):
        lines = [text(each) for each in instructions]
        assert len(set(lines)) == len(lines)


def test_jumps_name_where_they_lead() -> None:
    program = link_program(read_object(prebuilt("sockets.bpf.o")), "pc_getpeer4")
    function = program.functions["pc_getpeer4"]
    lines = list(listing(function))
    assert len(lines) == len(function.code)
    targets = {int(line.rpartition("goto ")[2]) for line in lines if "goto" in line}
    assert targets
    assert targets <= function.code.keys()
    assert any(line.endswith("= map pc_socket_peers") for line in lines)
    assert any(line.endswith(": exit") for line in lines)
