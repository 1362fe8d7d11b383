# SPDX-License-Identifier: Apache-2.0
"""From which functions every way returns: only there does the call's guard hold again afterwards."""

import pytest

from policyc.verifier.bytecode.concrete import Around
from policyc.verifier.bytecode.helpers import Helper
from policyc.verifier.bytecode.instructions import Exit, Imm, JumpIf, JumpOp
from policyc.verifier.bytecode.linked import CallFunction, CallHelper, Linked, LoadMap
from policyc.verifier.bytecode.symbolic.all_runs import Runner
from policyc.verifier.bytecode.term_domain import TermDomain
from tests.unit.verifier.bytecode.machines import (
    mov,
    program,
)

PLAIN = (mov(0, 1), Exit())
TAIL = (LoadMap(2, "programs"), mov(3, 0), CallHelper(int(Helper.TAIL_CALL)), mov(0, 1), Exit())
FORKED = (JumpIf(JumpOp.JEQ, 64, 1, Imm(0), 1), mov(0, 1), mov(0, 2), Exit())
TWO_EXITS = (JumpIf(JumpOp.JEQ, 64, 1, Imm(0), 2), mov(0, 1), Exit(), mov(0, 2), Exit())
CASES: dict[str, tuple[tuple[Linked, ...], bool]] = {
    "plain": (PLAIN, True),
    "ways that join": (FORKED, True),
    "a call of one that returns": ((CallFunction("plain"), Exit()), True),
    "a tail call": (TAIL, False),
    "two exits": (TWO_EXITS, False),
    "a call of one with a tail call": ((CallFunction("tail"), Exit()), False),
    "a call of one that calls such": ((CallFunction("by"), Exit()), False),
}
"""A tail call that succeeds ends the program in the function: what comes behind its call is only
where it failed. Two exits are two runs, of which the first is not all of the call."""


@pytest.mark.parametrize(("body", "returns"), CASES.values(), ids=CASES)
def test_functions_that_return_on_every_path_are_found(
    body: tuple[Linked, ...], returns: bool
) -> None:
    functions = {"f": body, "plain": PLAIN, "tail": TAIL, "by": (CallFunction("tail"), Exit())}
    asked = program(CallFunction("f"), Exit(), functions=functions)
    runner = Runner(asked, Around(asked), TermDomain())
    assert runner._always_returns(asked.functions["f"]) == returns
