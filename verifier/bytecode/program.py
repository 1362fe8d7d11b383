# SPDX-License-Identifier: Apache-2.0
"""A program as it will be loaded: an entry, the functions that it can reach, and the maps they name."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from policyc.verifier.bytecode.core_relocations import Layouts, NoLayouts
from policyc.verifier.bytecode.definitions import MapDefinition
from policyc.verifier.bytecode.errors import ObjectError
from policyc.verifier.bytecode.instructions import Exit, Jump, JumpIf
from policyc.verifier.bytecode.linked import (
    CallFunction,
    Linked,
    LoadMap,
    LoadMapValue,
    linked_slots,
)
from policyc.verifier.bytecode.linking import Linker
from policyc.verifier.bytecode.object import BpfObject


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block: consecutive instructions in slots `start` to `last`.

    `successors` are the slots that may follow; of a condition, the slot where it does not hold first.
    """

    start: int
    last: int
    successors: tuple[int, ...]


@dataclass(frozen=True)
class Function:
    """A function with its instructions by slot. Every jump has a target, and none runs past the end."""

    name: str
    code: Mapping[int, Linked]

    def __post_init__(self) -> None:
        for at, instruction in self.code.items():
            for target in successors(at, instruction):
                if target not in self.code:
                    raise ObjectError(f"{self.name}: slot {at} leads to {target}, which is none")

    @cached_property
    def blocks(self) -> Mapping[int, Block]:
        """The basic blocks by their first slot. A call of a function does not end one."""
        leaders = {0}
        for at, instruction in self.code.items():
            if isinstance(instruction, (Jump, JumpIf, Exit)):
                leaders.update(successors(at, instruction))
                leaders.add(at + 1)
        leaders &= self.code.keys()
        return {leader: self._block(leader, leaders) for leader in sorted(leaders)}

    def _block(self, leader: int, leaders: set[int]) -> Block:
        at = leader
        while True:
            following = successors(at, self.code[at])
            ends = isinstance(self.code[at], (Jump, JumpIf, Exit))
            if ends or following[0] in leaders:
                return Block(leader, at, following)
            at = following[0]


def successors(at: int, instruction: Linked) -> tuple[int, ...]:
    """Slots that may run next in the same function."""
    match instruction:
        case Exit():
            return ()
        case Jump(offset):
            return (at + 1 + offset,)
        case JumpIf(offset=offset):
            return at + 1, at + 1 + offset
    return (at + linked_slots(instruction),)


@dataclass(frozen=True)
class Program:
    """An entry with the functions that it calls, directly or not."""

    entry: str
    functions: Mapping[str, Function]
    maps: Mapping[str, MapDefinition]

    @cached_property
    def used_maps(self) -> frozenset[str]:
        """Names of the maps that its instructions refer to."""
        instructions = (i for function in self.functions.values() for i in function.code.values())
        return frozenset(i.map for i in instructions if isinstance(i, (LoadMap, LoadMapValue)))


def link_program(source: BpfObject, entry: str, layouts: Layouts | None = None) -> Program:
    """Link a program. Without layouts, a program with CO-RE relocations is an UnmodelledError."""
    linker = Linker(source, layouts or NoLayouts())
    functions: dict[str, Function] = {}
    wanted = [entry]
    while wanted:
        name = wanted.pop()
        if name in functions:
            continue
        place = source.places.get(name)
        if place is None:
            raise ObjectError(f"there is no function {name}")
        functions[name] = Function(name, linker.link(place))
        code = functions[name].code.values()
        wanted += [each.name for each in code if isinstance(each, CallFunction)]
    return Program(entry, functions, source.maps)
