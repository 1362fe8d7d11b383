# SPDX-License-Identifier: Apache-2.0
"""Programs of a few instructions, without an object around them."""

from collections.abc import Mapping

from policyc.verifier.bytecode.concrete import Around, Ended, run
from policyc.verifier.bytecode.definitions import MapDefinition, MapKind
from policyc.verifier.bytecode.instructions import Alu, AluOp, Exit, Imm, Reg, Store
from policyc.verifier.bytecode.linked import CallHelper, Linked, LoadMap, linked_slots
from policyc.verifier.bytecode.oracle import NoOracle, Oracle
from policyc.verifier.bytecode.program import Function, Program

ARRAY = MapDefinition("array", MapKind.ARRAY, 4, 16, 4)
HASH = MapDefinition("hash", MapKind.HASH, 4, 8, 2)
LRU = MapDefinition("lru", MapKind.LRU_HASH, 4, 8, 4)
TRIE = MapDefinition("trie", MapKind.LPM_TRIE, 8, 4, 16)
RING = MapDefinition("ring", MapKind.RINGBUF, 0, 0, 4096)
PROGRAMS = MapDefinition("programs", MapKind.PROG_ARRAY, 4, 4, 2)
MAPS = {each.name: each for each in (ARRAY, HASH, LRU, TRIE, RING, PROGRAMS)}
FP = 10


def mov(dst: int, src: int | Reg) -> Alu:
    return Alu(AluOp.MOV, 64, dst, src if isinstance(src, Reg) else Imm(src))


def add(dst: int, src: int | Reg) -> Alu:
    return Alu(AluOp.ADD, 64, dst, src if isinstance(src, Reg) else Imm(src))


def placed(code: tuple[Linked, ...]) -> dict[int, Linked]:
    found, at = {}, 0
    for each in code:
        found[at] = each
        at += linked_slots(each)
    return found


def program(*code: Linked, functions: Mapping[str, tuple[Linked, ...]] | None = None) -> Program:
    """The entry's code, and that of functions by name."""
    bodies = {"main": code, **(functions or {})}
    return Program(
        "main", {name: Function(name, placed(body)) for name, body in bodies.items()}, MAPS
    )


def around(*code: Linked, oracle: Oracle | None = None) -> Around:
    return Around(program(*code), oracle=oracle or NoOracle())


def ended(*code: Linked) -> Ended:
    """Run with a packet of 64 bytes and a mark of 5."""
    return run(around(*code), bytes(range(64)), {"mark": 5})


def result(*code: Linked) -> int:
    """The low 32 bits of r0 after this code."""
    found = ended(*code, Exit()).result
    assert isinstance(found, int)
    return found


def lookup(name: str, key: int) -> tuple[Linked, ...]:
    """r0 = the value of a key of four bytes."""
    return (
        Store(4, FP, -4, Imm(key)),
        mov(2, Reg(FP)),
        add(2, -4),
        LoadMap(1, name),
        CallHelper(1),
    )
