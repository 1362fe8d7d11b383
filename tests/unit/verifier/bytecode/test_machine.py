# SPDX-License-Identifier: Apache-2.0
"""What an instruction does is tested against the kernel; here, what it must not do."""

from collections.abc import Mapping

import pytest

from policyc.ir.errors import InternalError
from policyc.verifier.bytecode.concrete import Around, run
from policyc.verifier.bytecode.context import SKB, ContextMemory
from policyc.verifier.bytecode.errors import (
    BytecodeError,
    FaultError,
    ObjectError,
    StepLimitError,
    UnmodelledError,
)
from policyc.verifier.bytecode.instructions import (
    Alu,
    AluOp,
    Atomic,
    AtomicOp,
    Exit,
    Imm,
    Jump,
    JumpIf,
    JumpOp,
    Load,
    Negate,
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
    LoadNumber,
    Poisoned,
)
from policyc.verifier.bytecode.machine import Branch, step
from policyc.verifier.bytecode.pointers import MapValue, Packet, Pointer, Value
from policyc.verifier.bytecode.state import State, first_state
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Truth, mask
from tests.unit.verifier.bytecode.machines import (
    FP,
    add,
    ended,
    lookup,
    mov,
    program,
    result,
)

DATA, DATA_END, MARK = 76, 80, 8

REFUSED: list[tuple[str, type[BytecodeError], tuple[Linked, ...]]] = [
    ("a register that nothing was put in", FaultError, (mov(0, Reg(3)),)),
    ("an operand that nothing was put in", FaultError, (mov(0, 1), add(0, Reg(3)))),
    ("r0 at the end", FaultError, ()),
    ("a pointer at the end", FaultError, (mov(0, Reg(1)),)),
    ("stack that nothing was put in", FaultError, (Load(8, 0, FP, -8),)),
    ("half of what was put in", FaultError, (Store(4, FP, -8, Imm(1)), Load(8, 0, FP, -8))),
    ("below the stack", FaultError, (Store(8, FP, -520, Imm(1)),)),
    ("above the stack", FaultError, (Store(8, FP, 0, Imm(1)),)),
    ("over the end of the stack", FaultError, (Store(8, FP, -4, Imm(1)),)),
    ("a part of a pointer", FaultError, (Store(8, FP, -8, Reg(1)), Load(4, 0, FP, -8))),
    (
        "what is left of a pointer",
        FaultError,
        (Store(8, FP, -8, Reg(1)), Store(1, FP, -8, Imm(1)), Load(4, 0, FP, -4)),
    ),
    ("a pointer in four bytes", FaultError, (Store(4, FP, -8, Reg(1)),)),
    ("a pointer that is not aligned", FaultError, (Store(8, FP, -12, Reg(1)),)),
    ("a number as an address", FaultError, (mov(1, 4096), Load(8, 0, 1, 0))),
    ("a multiplied pointer", FaultError, (Alu(AluOp.MUL, 64, 1, Imm(2)),)),
    ("a pointer of 32 bits", FaultError, (Alu(AluOp.ADD, 32, 1, Imm(2)),)),
    ("half of a pointer", FaultError, (Alu(AluOp.MOV, 32, 2, Reg(1)),)),
    ("two pointers added", FaultError, (mov(2, Reg(1)), add(2, Reg(1)))),
    (
        "pointers to different regions",
        FaultError,
        (mov(2, Reg(FP)), Alu(AluOp.SUB, 64, 2, Reg(1))),
    ),
    (
        "a number less a pointer",
        FaultError,
        (mov(2, 1), Alu(AluOp.SUB, 64, 2, Reg(1))),
    ),
    ("a negated pointer", FaultError, (Negate(64, 1),)),
    ("a swapped pointer", FaultError, (Swap(64, True, 1),)),
    ("a map as memory", FaultError, (LoadMap(1, "array"), Load(8, 0, 1, 0))),
    ("arithmetic on a map", FaultError, (LoadMap(1, "array"), add(1, 8))),
    ("a pointer compared with a number", UnmodelledError, (JumpIf(JumpOp.JEQ, 64, 1, Imm(7), 0),)),
    ("a pointer ordered by a number", UnmodelledError, (JumpIf(JumpOp.JGT, 64, 1, Imm(0), 0),)),
    ("half of a pointer compared", UnmodelledError, (JumpIf(JumpOp.JEQ, 32, 1, Imm(0), 0),)),
    (
        "pointers to different regions compared",
        UnmodelledError,
        (JumpIf(JumpOp.JEQ, 64, 1, Reg(FP), 0),),
    ),
    (
        "pointers compared as signed",
        UnmodelledError,
        (mov(2, Reg(1)), JumpIf(JumpOp.JSGT, 64, 1, Reg(2), 0)),
    ),
    ("a pointer in an atomic operation", FaultError, (
        Store(8, FP, -8, Imm(0)), Atomic(AtomicOp.XCHG, 8, FP, -8, 1, fetch=True))),
    ("the context written where it may not", FaultError, (Store(4, 1, 0, Imm(1)),)),
    ("a part of a field written", FaultError, (Store(2, 1, MARK, Imm(1)),)),
    ("a pointer in the context", FaultError, (Store(8, 1, 152, Reg(1)),)),
    ("a field that nobody gave", FaultError, (Load(4, 0, 1, 40),)),
    ("an unknown field", UnmodelledError, (Load(4, 0, 1, 88),)),
    ("metadata in front of the packet", UnmodelledError, (Load(4, 0, 1, 140),)),
    ("over two fields", UnmodelledError, (Load(8, 0, 1, MARK),)),
    ("half of a packet's pointer", UnmodelledError, (Load(2, 0, 1, DATA),)),
    ("behind the packet", FaultError, (Load(4, 2, 1, DATA), Load(4, 0, 2, 61))),
    ("before the packet", FaultError, (Load(4, 2, 1, DATA), Load(4, 0, 2, -1))),
    ("a stack's address in a map", FaultError, (
        *lookup("array", 0), Store(8, 0, 0, Reg(FP)))),
    ("a pointer in a map", UnmodelledError, (
        mov(6, Reg(1)), *lookup("array", 0), Store(8, 0, 0, Reg(6)))),
    ("behind a map's value", FaultError, (*lookup("array", 1), Load(8, 0, 0, 12))),
    ("a helper's lost register", FaultError, (*lookup("array", 1), mov(0, Reg(2)))),
    ("a helper that is not known", UnmodelledError, (CallHelper(6),)),
    ("a helper that nobody answers for", UnmodelledError, (CallHelper(7),)),
    ("a kfunc", UnmodelledError, (CallKfunc("bpf_cast_to_kern_ctx"),)),
    ("what this kernel has not", UnmodelledError, (Poisoned("no such field"),)),
]  # fmt: skip


@pytest.mark.parametrize(("what", "error", "code"), REFUSED, ids=[each[0] for each in REFUSED])
def test_invalid_code_is_refused(
    what: str, error: type[BytecodeError], code: tuple[Linked, ...]
) -> None:
    with pytest.raises(error):
        result(*code)


def test_pointers_come_back_from_the_stack() -> None:
    assert result(Store(8, FP, -8, Reg(1)), Load(8, 2, FP, -8), Load(4, 0, 2, MARK)) == 5


def test_packet_ends_are_compared_and_subtracted() -> None:
    ends: tuple[Linked, ...] = (Load(4, 2, 1, DATA), Load(4, 3, 1, DATA_END))
    assert result(*ends, mov(0, Reg(3)), Alu(AluOp.SUB, 64, 0, Reg(2))) == 64
    inside = (*ends, mov(4, Reg(2)), add(4, 14), mov(0, 0), JumpIf(JumpOp.JGT, 64, 4, Reg(3), 1))
    assert result(*inside, Load(1, 0, 2, 13)) == 13
    outside = (*ends, mov(4, Reg(2)), add(4, 65), mov(0, 9), JumpIf(JumpOp.JGT, 64, 4, Reg(3), 1))
    assert result(*outside, Load(1, 0, 2, 64)) == 9


def test_a_change_of_the_packet_ends_pointers_to_it() -> None:
    store: tuple[Linked, ...] = (
        mov(6, Reg(1)),
        Load(4, 7, 1, DATA),
        Store(4, FP, -4, Imm(0x01020304)),
        mov(2, 10),
        mov(3, Reg(FP)),
        add(3, -4),
        mov(4, 4),
        mov(5, 0),
        CallHelper(9),
    )
    with pytest.raises(FaultError, match="none any more"):
        result(*store, Load(4, 0, 7, 10))
    assert result(*store, Load(4, 7, 6, DATA), Load(4, 0, 7, 10)) == 0x01020304
    found = ended(*store, Exit())
    assert found.result == 0
    assert found.packet == bytes(range(10)) + b"\x04\x03\x02\x01" + bytes(range(14, 64))


def test_a_function_has_a_stack_and_registers_of_its_own() -> None:
    body: tuple[Linked, ...] = (
        Store(8, FP, -8, Imm(3)),
        mov(6, Reg(1)),
        Load(8, 0, FP, -8),
        add(0, Reg(6)),
        Exit(),
    )
    main: tuple[Linked, ...] = (
        Store(8, FP, -8, Imm(40)),
        mov(6, 100),
        mov(1, 7),
        CallFunction("f"),
        add(0, Reg(6)),
        Load(8, 1, FP, -8),
        add(0, Reg(1)),
        Exit(),
    )
    assert run(Around(program(*main, functions={"f": body}))).result == 3 + 7 + 100 + 40


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("a register of the caller's", (mov(0, Reg(6)), Exit())),
        ("the caller's stack, which nobody gave", (Load(8, 0, FP, -8), Exit())),
        ("its stack's address given back", (mov(0, Reg(FP)), Exit())),
        (
            "its stack's address left in the caller's",
            (Store(8, 1, -16, Reg(FP)), mov(0, 0), Exit()),
        ),
        ("itself, again and again", (CallFunction("f"), Exit())),
    ],
)
def test_a_function_may_not(what: str, body: tuple[Linked, ...]) -> None:
    main = (Store(8, FP, -8, Imm(4)), mov(6, 1), mov(1, Reg(FP)), CallFunction("f"), Exit())
    with pytest.raises(FaultError):
        run(Around(program(*main, functions={"f": body})))


def test_a_call_clears_argument_registers() -> None:
    main = (mov(1, 1), CallFunction("f"), mov(0, Reg(1)), Exit())
    with pytest.raises(FaultError, match="r1"):
        run(Around(program(*main, functions={"f": (mov(0, 0), Exit())})))


def test_a_caller_gives_its_stack_to_a_function() -> None:
    body = (Store(8, 1, 0, Imm(6)), mov(0, 0), Exit())
    main = (mov(1, Reg(FP)), add(1, -8), CallFunction("f"), Load(8, 0, FP, -8), Exit())
    assert run(Around(program(*main, functions={"f": body}))).result == 6


def test_an_endless_program_is_stopped() -> None:
    with pytest.raises(StepLimitError, match="1000"):
        run(Around(program(Jump(-1))), limit=1000)


@pytest.mark.parametrize(
    "code",
    [
        (mov(0, 0),),
        (Jump(5), Exit()),
        (JumpIf(JumpOp.JEQ, 64, 0, Imm(0), -2), Exit()),
        (Jump(1), LoadNumber(0, 1), Exit()),
    ],
)
def test_code_that_leads_to_no_instruction_is_refused(code: tuple[Linked, ...]) -> None:
    with pytest.raises(ObjectError, match="leads to"):
        program(*code)


# --- with what is not known ---------------------------------------------------------------------


TERMS = TermDomain()


def unknown_state(registers: Mapping[int, Value]) -> State:
    """Over terms."""
    domain = TERMS
    state = first_state(domain, "main", ContextMemory(domain, SKB))
    for register, value in registers.items():
        state.registers[register] = value
    return state


NOTHING_AROUND = Around(program(Exit()))


def stepped(state: State, *code: Linked) -> object:
    """The outcome of the last instruction."""
    outcome = None
    for instruction in code:
        outcome = step(state, instruction, NOTHING_AROUND)
    return outcome


def test_a_jump_on_an_unknown_condition_branches_without_a_change_of_state() -> None:
    x = TERMS.variable("x", 64)
    state = unknown_state({3: x})
    outcome = stepped(state, mov(4, 1), JumpIf(JumpOp.JEQ, 32, 3, Imm(5), 7))
    assert isinstance(outcome, Branch)
    assert (state.at, outcome.following, outcome.taken) == (1, 2, 9)
    assert outcome.condition is TERMS.equal(TERMS.truncate(x, 32, 64), 5, 32)
    other = state.copy()
    outcome.go(state, is_taken=True)
    outcome.go(other, is_taken=False)
    assert (state.at, other.at) == (9, 2)


def test_a_pointer_needs_a_null_check_before_use() -> None:
    null = TERMS.truth("null")
    value = Pointer(MapValue("array", 1), 0, null)
    state = unknown_state({0: value, 6: value})
    for use in (Load(8, 1, 0, 0), add(0, 8), Store(8, 0, 0, Imm(1)), mov(1, Reg(7))):
        with pytest.raises(FaultError):
            stepped(state.copy(), use)
    stepped(state, Store(8, FP, -8, Reg(0)))
    outcome = stepped(state, JumpIf(JumpOp.JNE, 64, 0, Imm(0), 3))
    assert isinstance(outcome, Branch)
    other = state.copy()
    outcome.go(state, is_taken=True)
    outcome.go(other, is_taken=False)
    known = Pointer(MapValue("array", 1))
    assert state.registers[0] == state.registers[6] == known
    assert state.load(Pointer(state.frame, -8 & mask(64)), 8) == known
    assert other.registers[0] == other.registers[6] == 0
    assert other.load(Pointer(other.frame, -8 & mask(64)), 8) == 0


def test_a_null_check_refines_only_its_own_lookup() -> None:
    one, two = (Pointer(MapValue("array", n), 0, _bool(f"null{n}")) for n in (1, 2))
    state = unknown_state({0: one, 6: two})
    outcome = stepped(state, JumpIf(JumpOp.JEQ, 64, 0, Imm(0), 3))
    assert isinstance(outcome, Branch)
    outcome.go(state, is_taken=False)
    assert state.registers[6] is two


def _bool(name: str) -> Truth:
    return TERMS.truth(name)


def test_terms_come_back_from_the_stack_whole() -> None:
    x = TERMS.variable("x", 64)
    state = unknown_state({3: x})
    stepped(state, Store(8, FP, -8, Reg(3)), Load(4, 4, FP, -8), Load(8, 5, FP, -8))
    low = TERMS.truncate(x, 32, 64)
    assert state.registers[4] is TERMS.zero_extend(low, 32, 64)
    assert state.registers[5] is x
    stepped(state, Store(1, FP, -5, Imm(0xAB)), Load(8, 6, FP, -8))
    cut = TERMS.extract(x, 0, 24, 64), TERMS.extract(x, 32, 32, 64)
    assert state.registers[6] is TERMS.concat([(cut[0], 24), (0xAB, 8), (cut[1], 32)])


def test_a_stack_offset_must_be_known() -> None:
    x = TERMS.variable("x", 64)
    state = unknown_state({3: x})
    with pytest.raises(UnmodelledError, match="offset"):
        stepped(state, mov(4, Reg(FP)), add(4, Reg(3)), Load(8, 5, 4, 0))


def test_a_copy_runs_independently() -> None:
    state = unknown_state({3: 1})
    stepped(state, Store(8, FP, -8, Imm(1)))
    other = state.copy()
    stepped(other, Store(8, FP, -8, Imm(2)), mov(3, 2))
    stepped(state, Load(8, 4, FP, -8))
    assert (state.registers[3], state.registers[4]) == (1, 1)


def test_a_null_pointer_is_a_number() -> None:
    with pytest.raises(InternalError):
        Pointer(Packet(), 0, True)
