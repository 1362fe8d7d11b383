# SPDX-License-Identifier: Apache-2.0
"""An object's parts by name: maps, functions, types. `program.py` turns them into a loaded program."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from policyc.verifier.bytecode.btf import Btf, read_btf
from policyc.verifier.bytecode.core_relocations import CoreRelocation, read_core_relocations
from policyc.verifier.bytecode.definitions import MapDefinition, maps_of
from policyc.verifier.bytecode.elf import (
    Elf,
    Relocation,
    Section,
    Symbol,
    SymbolType,
    read_elf,
)
from policyc.verifier.bytecode.encoding import decode
from policyc.verifier.bytecode.errors import ObjectError
from policyc.verifier.bytecode.instructions import SLOT, Instruction


@dataclass(frozen=True, slots=True)
class FunctionPlace:
    """A function's code: slots `start` to `end` of a section."""

    name: str
    section: int
    start: int
    end: int


@dataclass(frozen=True)
class BpfObject:
    """An object that was read and is consistent; no program is linked yet."""

    elf: Elf
    btf: Btf
    maps: Mapping[str, MapDefinition]
    places: Mapping[str, FunctionPlace]
    core: Mapping[str, Mapping[int, CoreRelocation]]

    @cached_property
    def starts(self) -> Mapping[tuple[int, int], str]:
        """Names of functions by section and first slot."""
        return {(each.section, each.start): each.name for each in self.places.values()}

    @cached_property
    def relocated(self) -> Mapping[tuple[int, int], Relocation]:
        """Relocations of code, by section and slot."""
        return {
            (section.index, each.offset // SLOT): each
            for section in self.elf.sections
            if section.is_code
            for each in self.elf.relocations.get(section.index, ())
        }

    @property
    def entries(self) -> tuple[str, ...]:
        """Functions outside of .text, by order of name: the functions that a hook can run."""
        text = {section.index for section in self.elf.sections if section.name == ".text"}
        return tuple(sorted(n for n, each in self.places.items() if each.section not in text))

    def code(self, place: FunctionPlace) -> dict[int, Instruction]:
        """The instructions of a function, by slot from its own start."""
        data = self.elf.sections[place.section].data
        return decode(data[SLOT * place.start : SLOT * place.end])


def read_object(data: bytes) -> BpfObject:
    """Read an object of clang's or LLVM's. ObjectError or UnmodelledError if that is impossible."""
    elf = read_elf(data)
    btf = read_btf(elf.section(".BTF").data)
    core = (
        read_core_relocations(elf.section(".BTF.ext").data, btf)
        if elf.has_section(".BTF.ext")
        else {}
    )
    maps = {each.name: each for each in maps_of(elf, btf)}
    _check_relocations(elf)
    return BpfObject(elf, btf, maps, _functions(elf), core)


def _functions(elf: Elf) -> dict[str, FunctionPlace]:
    code = {section.index: section for section in elf.sections if section.is_code}
    found: dict[str, FunctionPlace] = {}
    for symbol in elf.symbols:
        if symbol.kind != SymbolType.FUNC or symbol.section not in code:
            continue
        if symbol.name in found:
            raise ObjectError(f"two functions are called {symbol.name}")
        found[symbol.name] = _place(symbol, code[symbol.section])
    ordered = sorted(found.values(), key=lambda each: (each.section, each.start))
    for one, two in pairwise(ordered):
        if one.section == two.section and two.start < one.end:
            raise ObjectError(f"{one.name} and {two.name} overlap")
    return found


def _place(symbol: Symbol, section: Section) -> FunctionPlace:
    end = symbol.value + symbol.size
    if not symbol.size or end > section.size or symbol.value % SLOT or symbol.size % SLOT:
        raise ObjectError(f"{symbol.name} lies at {symbol.value} to {end} of {section.size} bytes")
    return FunctionPlace(symbol.name, symbol.section, symbol.value // SLOT, end // SLOT)


def _check_relocations(elf: Elf) -> None:
    """Each relocation in code belongs to an instruction, and each instruction has at most one."""
    for section in elf.sections:
        if not section.is_code:
            continue
        offsets = [each.offset for each in elf.relocations.get(section.index, ())]
        if any(offset % SLOT for offset in offsets) or len(set(offsets)) < len(offsets):
            raise ObjectError(f"{section.name}: relocations within instructions")
