# SPDX-License-Identifier: Apache-2.0
"""All runs of random bytecode at once: for any inputs the merged end is what the one run leaves."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.verifier.bytecode.instructions import (
    Alu,
    AluOp,
    Exit,
    Imm,
    Jump,
    JumpIf,
    JumpOp,
    Reg,
)
from policyc.verifier.bytecode.linked import Linked
from policyc.verifier.bytecode.machine import Exited, TailCall, step
from policyc.verifier.bytecode.program import Function, Program
from policyc.verifier.bytecode.state import State
from policyc.verifier.bytecode.symbolic.all_runs import (
    Ended,
    Runner,
)
from policyc.verifier.bytecode.symbolic.guards import Guard, joined
from policyc.verifier.bytecode.symbolic.order import order_of
from policyc.verifier.bytecode.values import NUMBERS, number
from tests.kernel.support.random_bytecode import (
    WORDS,
    plain_sequence,
    wide,
)
from tests.property.bytecode_terms import (
    AROUND,
    NAMES,
    TERMS,
    at_word,
    holds,
    known,
    linked,
    state_of,
)
from tests.property.length import examples


def folded(code: dict[int, Linked]) -> dict[int, Linked]:
    """The code, and behind it all registers in r0, so that each of them counts."""
    at = max(code) + 1 if code else 0
    found = dict(code)
    for register in range(1, 10):
        found[at] = Alu(AluOp.MUL, 64, 0, Imm(31))
        found[at + 1] = Alu(AluOp.XOR, 64, 0, Reg(register))
        at += 2
    found[at] = Exit()
    return found


def all_runs(code: dict[int, Linked]) -> list[Ended]:
    program = Program("main", {"main": Function("main", code)}, {})
    return Runner(program, AROUND, TERMS).run(state_of(TERMS, NAMES))


def one_run(code: dict[int, Linked], values: list[int]) -> tuple[int, State]:
    state = state_of(NUMBERS, values)
    while True:
        outcome = step(state, code[state.at], AROUND)
        if isinstance(outcome, Exited):
            return number(outcome.result), state


def check(code: dict[int, Linked], inputs: list[list[int]]) -> None:
    ends = all_runs(code)
    for values in inputs:
        known_as = dict(zip(NAMES, values, strict=True))
        reached = [end for end in ends if holds(end.guard.term(), known_as)]
        assert len(reached) == 1, "of all ends one is reached"
        (end,) = reached
        result, state = one_run(code, values)
        assert not isinstance(end.result, TailCall)
        assert known(end.result, known_as) == result
        for word in range(WORDS):
            there = end.state.load_bits(at_word(end.state, word), 8)
            assert known(there, known_as) == number(state.load_bits(at_word(state, word), 8))


@settings(max_examples=examples(120, 2), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_all_runs_together_equal_each_run(seed: int) -> None:
    rng = random.Random(seed)
    code = folded(linked(plain_sequence(rng)))
    check(code, [[wide(rng) for _ in NAMES] for _ in range(4)])


LOOP: dict[int, Linked] = {
    0: Alu(AluOp.MOV, 64, 2, Imm(0)),
    1: Alu(AluOp.MOV, 64, 0, Imm(0)),
    2: JumpIf(JumpOp.JGE, 64, 2, Imm(5), 6),  # to 9
    3: JumpIf(JumpOp.JEQ, 64, 2, Reg(1), 5),  # to 9
    4: Alu(AluOp.ADD, 64, 0, Reg(2)),
    5: JumpIf(JumpOp.JSET, 64, 3, Imm(1), 1),  # to 7
    6: Alu(AluOp.ADD, 64, 0, Imm(100)),
    7: Alu(AluOp.ADD, 64, 2, Imm(1)),
    8: Jump(-7),  # to 2
    9: Exit(),
}
"""Five times around, or as often as r1 says; r3 says what is added beside."""


def test_symbolic_runs_follow_a_loop_and_its_early_exit() -> None:
    check(LOOP, [[0, r1, 0, r3, *[0] * 6] for r1 in (0, 1, 3, 4, 5, 9) for r3 in (0, 1)])


NESTED: dict[int, Linked] = {
    0: Alu(AluOp.MOV, 64, 0, Imm(0)),
    1: Alu(AluOp.MOV, 64, 2, Imm(0)),
    2: Alu(AluOp.MOV, 64, 3, Imm(0)),  # the outer loop's head
    3: JumpIf(JumpOp.JEQ, 64, 3, Reg(1), 3),  # the inner one's; to 7
    4: Alu(AluOp.ADD, 64, 0, Imm(1)),
    5: Alu(AluOp.ADD, 64, 3, Imm(1)),
    6: JumpIf(JumpOp.JLT, 64, 3, Imm(3), -4),  # to 3
    7: Alu(AluOp.ADD, 64, 2, Imm(1)),
    8: JumpIf(JumpOp.JLT, 64, 2, Imm(4), -7),  # to 2
    9: Exit(),
}


def test_symbolic_runs_follow_a_nested_loop() -> None:
    order = order_of(Function("main", NESTED))
    assert order.heads[4] == (2, 3) and order.heads[7] == (2,) and order.heads[9] == ()
    check(NESTED, [[0, r1, *[0] * 8] for r1 in range(5)])


@given(
    mine=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=4),
    theirs=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=4),
    apart=st.integers(0, 5),
)
def test_exclusive_guards_are_joined(
    mine: list[tuple[int, bool]], theirs: list[tuple[int, bool]], apart: int
) -> None:
    names = [TERMS.truth(f"c{i}") for i in range(6)]

    def guard(parts: list[tuple[int, bool]]) -> Guard | None:
        found: Guard | None = Guard(TERMS)
        for at, holds_ in parts:
            found = found and found.with_(names[at] if holds_ else TERMS.no(names[at]))
        return found

    one, other = guard([(apart, True), *mine]), guard([(apart, False), *theirs])
    if one is None or other is None:
        return
    both = joined((one, other))
    for chosen in range(2 ** len(names)):
        inputs = {name: chosen >> at & 1 for at, name in enumerate(names)}
        here, there = (holds(each.term(), inputs) for each in (one, other))
        assert holds(both.term(), inputs) == (here or there)
        if here or there:
            assert holds(one.apart(other), inputs) == here
