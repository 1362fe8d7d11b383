# SPDX-License-Identifier: Apache-2.0
"""BPF objects as files: ELF64, little-endian, relocatable, with REL relocations (elf(5)).

Reads from bytes and keeps slices of them, so a damaged file costs no more memory than its size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from policyc.verifier.bytecode.errors import ObjectError
from policyc.verifier.bytecode.fields import numbers, part, text

EM_BPF = 247
SHN_UNDEF = 0
SHN_LORESERVE = 0xFF00
SHF_EXECINSTR = 4
_ET_REL = 1
_HEADER, _SECTION, _SYMBOL, _REL = 64, 64, 24, 16


class SectionType(IntEnum):
    """SHT_*: the section types that are read."""

    NULL = 0
    PROGBITS = 1
    SYMTAB = 2
    STRTAB = 3
    RELA = 4
    NOBITS = 8
    REL = 9


class SymbolType(IntEnum):
    """STT_*."""

    NOTYPE = 0
    OBJECT = 1
    FUNC = 2
    SECTION = 3
    FILE = 4


class Binding(IntEnum):
    """STB_*."""

    LOCAL = 0
    GLOBAL = 1
    WEAK = 2


class RelocationType(IntEnum):
    """R_BPF_*, of the kernel's Documentation/bpf/llvm_reloc.rst."""

    LD_IMM64 = 1
    ABS64 = 2
    ABS32 = 3
    NODYLD32 = 4
    CALL = 10


@dataclass(frozen=True, slots=True)
class Section:
    """A section. A NOBITS section has no data, but `size` bytes of zeros."""

    index: int
    name: str
    kind: int
    flags: int
    data: bytes
    size: int
    link: int
    info: int

    @property
    def is_code(self) -> bool:
        """Whether it holds instructions."""
        return self.kind == SectionType.PROGBITS and bool(self.flags & SHF_EXECINSTR)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol; `section` is an index, SHN_UNDEF for a symbol that the file does not define."""

    name: str
    kind: int
    binding: int
    section: int
    value: int
    size: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A relocation at an offset of a section; the addend is the value stored there."""

    offset: int
    kind: RelocationType
    symbol: Symbol


@dataclass(frozen=True)
class Elf:
    """The parts of an object. `relocations` are by the index of the section that they change."""

    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: Mapping[int, tuple[Relocation, ...]]

    @cached_property
    def _by_name(self) -> Mapping[str, Section]:
        return {section.name: section for section in reversed(self.sections)}

    def section(self, name: str) -> Section:
        """The first section with a name. ObjectError if there is none."""
        found = self._by_name.get(name)
        if found is None:
            raise ObjectError(f"there is no section {name}")
        return found

    def has_section(self, name: str) -> bool:
        """Whether there is a section of this name."""
        return name in self._by_name


def read_elf(data: bytes) -> Elf:
    """Read an object. ObjectError if it is not one, or refers to bytes that it does not have."""
    sections = _sections(data)
    symbols = _symbols(sections)
    return Elf(sections, symbols, _relocations(sections, symbols))


def _sections(data: bytes) -> tuple[Section, ...]:
    if part(data, 0, 7, "the ELF header") != b"\x7fELF\x02\x01\x01":
        raise ObjectError("this is no little-endian 64-bit ELF file")
    (kind, machine, version) = numbers(data, "HHI", 16, "the ELF header")
    if (kind, machine, version) != (_ET_REL, EM_BPF, 1):
        raise ObjectError(f"this is no BPF object: type {kind}, machine {machine}")
    (table,) = numbers(data, "Q", 40, "the ELF header")
    header, _, _, entry, count, names_at = numbers(data, "HHHHHH", 52, "the ELF header")
    if header != _HEADER or entry != _SECTION or not count:
        raise ObjectError(f"headers of {header} and {entry} bytes, {count} sections")
    headers = [numbers(data, "IIQQQQIIQQ", table + _SECTION * i, "section") for i in range(count)]
    bodies = [_body(data, each) for each in headers]
    if not 0 < names_at < count:
        raise ObjectError(f"names of sections are in section {names_at} of {count}")
    return tuple(
        Section(
            index=i,
            name=text(bodies[names_at], h[0], "the name of a section"),
            kind=h[1],
            flags=h[2],
            data=bodies[i],
            size=h[5],
            link=h[6],
            info=h[7],
        )
        for i, h in enumerate(headers)
    )


def _body(data: bytes, header: tuple[int, ...]) -> bytes:
    if header[1] in (SectionType.NULL, SectionType.NOBITS):
        return b""
    return part(data, header[4], header[5], "a section")


def _only_symtab(sections: tuple[Section, ...]) -> Section | None:
    found = [section for section in sections if section.kind == SectionType.SYMTAB]
    if len(found) > 1:
        raise ObjectError("there are several symbol tables")
    return found[0] if found else None


def _symbols(sections: tuple[Section, ...]) -> tuple[Symbol, ...]:
    table = _only_symtab(sections)
    if table is None:
        return ()
    if table.size % _SYMBOL or not 0 < table.link < len(sections):
        raise ObjectError("the symbol table is cut off or has no names")
    names = sections[table.link].data
    return tuple(_symbol(table.data, at, names, sections) for at in range(0, table.size, _SYMBOL))


def _symbol(data: bytes, at: int, names: bytes, sections: tuple[Section, ...]) -> Symbol:
    name, info, _other, section, value, size = numbers(data, "IBBHQQ", at, "a symbol")
    if len(sections) <= section < SHN_LORESERVE:
        raise ObjectError(f"a symbol is in section {section} of {len(sections)}")
    if info & 15 == SymbolType.SECTION and not section < len(sections):
        raise ObjectError(f"a section's symbol is of section {section}")
    said = text(names, name, "the name of a symbol") if name else ""
    return Symbol(said, info & 15, info >> 4, section, value, size)


def _relocations(
    sections: tuple[Section, ...], symbols: tuple[Symbol, ...]
) -> dict[int, tuple[Relocation, ...]]:
    found: dict[int, tuple[Relocation, ...]] = {}
    table = _only_symtab(sections)
    for section in sections:
        if section.kind == SectionType.RELA:
            raise ObjectError(f"{section.name} has addends of its own (RELA), which BPF has not")
        if section.kind != SectionType.REL:
            continue
        if not 0 < section.info < len(sections) or section.info in found:
            raise ObjectError(f"{section.name} relocates section {section.info}")
        if table is None or section.link != table.index or section.size % _REL:
            raise ObjectError(f"{section.name} has no symbols or is cut off")
        into = sections[section.info]
        found[section.info] = tuple(
            _relocation(section.data, at, into, symbols) for at in range(0, section.size, _REL)
        )
    return found


def _relocation(data: bytes, at: int, into: Section, symbols: tuple[Symbol, ...]) -> Relocation:
    offset, info = numbers(data, "QQ", at, "a relocation")
    kind, symbol = info & 0xFFFFFFFF, info >> 32
    if symbol >= len(symbols) or offset >= into.size:
        raise ObjectError(f"{into.name}: a relocation at {offset}, to symbol {symbol}")
    try:
        return Relocation(offset, RelocationType(kind), symbols[symbol])
    except ValueError as error:
        raise ObjectError(f"{into.name}: a relocation of type {kind}") from error
