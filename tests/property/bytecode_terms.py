# SPDX-License-Identifier: Apache-2.0
"""Random terms, and the states of a machine in which they are evaluated."""

from collections.abc import Mapping, Sequence

from policyc.verifier.bytecode.concrete import Around
from policyc.verifier.bytecode.context import SKB, ContextMemory
from policyc.verifier.bytecode.evaluation import evaluate
from policyc.verifier.bytecode.instructions import Call, Instruction, LoadWide
from policyc.verifier.bytecode.linked import Linked, LoadNumber
from policyc.verifier.bytecode.nodes import Node, below
from policyc.verifier.bytecode.pointers import Pointer
from policyc.verifier.bytecode.program import Program
from policyc.verifier.bytecode.state import State, first_state
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Bits, Domain, Truth, mask
from tests.kernel.support.random_bytecode import (
    AREA,
    WORDS,
)

TERMS = TermDomain()

NAMES = [TERMS.variable(f"r{i}", 64) for i in range(10)]

Inputs = Mapping[Node, int]

AROUND = Around(Program("main", {}, {}))


def linked(code: list[Instruction]) -> dict[int, Linked]:
    found: dict[int, Linked] = {}
    at = 0
    for each in code:
        if isinstance(each, LoadWide):
            found[at] = LoadNumber(each.dst, each.high << 32 | each.low)
            at += 2
        else:
            assert not isinstance(each, Call)
            found[at] = each
            at += 1
    return found


def state_of(domain: Domain, registers: Sequence[Bits]) -> State:
    """Registers, and each of them in the stack as well."""
    state = first_state(domain, "main", ContextMemory(domain, SKB))
    state.registers[:10] = registers
    for word in range(WORDS):
        state.store(at_word(state, word), 8, registers[word])
    return state


def at_word(state: State, word: int) -> Pointer:
    return Pointer(state.frame, AREA + 8 * word & mask(64))


def holds(condition: Truth, inputs: Inputs) -> bool:
    return bool(known(condition, inputs)) if isinstance(condition, Node) else condition


def known(bits: Bits, inputs: Inputs) -> int:
    if isinstance(bits, int):
        return bits
    values = dict(inputs)
    evaluate(below(bits), values)
    return values[bits]
