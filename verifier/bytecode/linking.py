# SPDX-License-Identifier: Apache-2.0
"""Instructions after libbpf's linking: references by name, CO-RE relocations applied.

The rules are libbpf's (bpf_program__record_reloc, bpf_object__reloc_code, bpf_core_patch_insn).
"""

from dataclasses import dataclass, replace

from policyc.verifier.bytecode.core_relocations import CoreKind, CoreRelocation, Layouts
from policyc.verifier.bytecode.definitions import SECTION, is_data
from policyc.verifier.bytecode.elf import (
    SHN_UNDEF,
    Relocation,
    RelocationType,
    SymbolType,
)
from policyc.verifier.bytecode.errors import ObjectError, UnmodelledError
from policyc.verifier.bytecode.instructions import (
    SLOT,
    Alu,
    Call,
    CallKind,
    Imm,
    Instruction,
    Load,
    LoadWide,
    Pseudo,
    Store,
    slots,
)
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
from policyc.verifier.bytecode.object import BpfObject, FunctionPlace


@dataclass(frozen=True)
class Linker:
    """Links the functions of one object for a kernel of these layouts."""

    object: BpfObject
    layouts: Layouts

    def link(self, place: FunctionPlace) -> dict[int, Linked]:
        """A function's instructions by slot, with all references by name."""
        section = self.object.elf.sections[place.section]
        core = self.object.core.get(section.name, {})
        found: dict[int, Linked] = {}
        for at, instruction in self.object.code(place).items():
            slot = place.start + at
            asked = core.get(SLOT * slot)
            relocation = self.object.relocated.get((place.section, slot))
            if asked is not None and relocation is not None:
                raise ObjectError(f"{place.name}: slot {at} is relocated twice")
            if asked is not None:
                found[at] = self._by_layout(instruction, asked)
            elif relocation is not None:
                found[at] = self._relocated(instruction, relocation)
            else:
                found[at] = self._as_it_is(instruction, place.section, slot)
        return found

    def _as_it_is(self, instruction: Instruction, section: int, slot: int) -> Linked:
        match instruction:
            case LoadWide(dst, Pseudo.NUMBER, low, high):
                return LoadNumber(dst, high << 32 | low)
            case LoadWide():
                raise UnmodelledError(f"{instruction} without a relocation")
            case Call(CallKind.HELPER, number):
                return CallHelper(number)
            case Call(CallKind.LOCAL, offset):
                return self._function(section, slot + 1 + offset)
            case Call():
                raise UnmodelledError(f"{instruction} without a relocation")
        return instruction

    def _function(self, section: int, slot: int) -> CallFunction:
        name = self.object.starts.get((section, slot))
        if name is None:
            raise ObjectError(f"a call into section {section} at slot {slot}: no function is there")
        return CallFunction(name)

    def _relocated(self, instruction: Instruction, relocation: Relocation) -> Linked:
        match instruction, relocation.kind:
            case LoadWide(), RelocationType.LD_IMM64:
                return self._address(instruction, relocation)
            case Call(kind=CallKind.LOCAL), RelocationType.CALL:
                return self._call(instruction, relocation)
        raise UnmodelledError(f"{instruction} with a relocation {relocation.kind.name}")

    def _call(self, instruction: Call, relocation: Relocation) -> Linked:
        symbol = relocation.symbol
        if symbol.section == SHN_UNDEF:
            return CallKfunc(symbol.name)
        if symbol.value % SLOT:
            raise ObjectError(f"a call of {symbol.name} at {symbol.value}")
        return self._function(symbol.section, symbol.value // SLOT + instruction.target + 1)

    def _address(self, instruction: LoadWide, relocation: Relocation) -> Linked:
        symbol, dst = relocation.symbol, instruction.dst
        if instruction.kind is not Pseudo.NUMBER or not symbol.section < len(
            self.object.elf.sections
        ):
            raise UnmodelledError(f"{instruction} refers to {symbol.name}")
        if symbol.section == SHN_UNDEF:
            why = f"the address of the kernel's {symbol.name} is not known"
            return Poisoned(why, slots(instruction))
        section = self.object.elf.sections[symbol.section]
        if section.name == SECTION and symbol.kind == SymbolType.OBJECT:
            if symbol.name not in self.object.maps or instruction.low or instruction.high:
                raise ObjectError(f"{symbol.name} is no map")
            return LoadMap(dst, symbol.name)
        if is_data(section) and not instruction.high:
            offset = symbol.value + instruction.low
            if not 0 <= offset < section.size:
                raise ObjectError(f"{section.name} has no byte {offset}")
            return LoadMapValue(dst, section.name, offset)
        raise UnmodelledError(f"the address of {symbol.name or section.name}")

    def _by_layout(self, instruction: Instruction, asked: CoreRelocation) -> Linked:
        value = self.layouts.answer(asked)
        if value is None:
            return Poisoned(f"{asked} has no answer on this kernel")
        match instruction:
            case Alu(src=Imm()) if -(1 << 31) <= value < 1 << 31:
                return replace(instruction, src=Imm(value))
            case Load() | Store() if -(1 << 15) <= value < 1 << 15:
                size = self.layouts.answer(replace(asked, kind=CoreKind.FIELD_BYTE_SIZE))
                if size != instruction.size:
                    raise UnmodelledError(
                        f"{asked}: an access of {instruction.size} bytes to {size}"
                    )
                return replace(instruction, offset=value)
            case LoadWide(dst, Pseudo.NUMBER):
                return LoadNumber(dst, value & (1 << 64) - 1)
        raise UnmodelledError(f"{instruction} cannot take {value} for {asked}")
