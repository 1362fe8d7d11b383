# SPDX-License-Identifier: Apache-2.0
"""Remove the debug sections of a relocatable ELF object: BTF stays, DWARF has no reader on a node.

Only the ELF that LLVM writes for BPF is supported: 64 bits, little-endian, ordinary section numbers.
Source: the System V ABI, gABI 4.1, chapters 4 (sections, symbols, relocations).
"""

import struct
from dataclasses import dataclass, replace

from policyc.ir.errors import InternalError

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMTAB, REL, NOBITS, ABSOLUTE, SPECIAL = 2, 9, 8, 0xFFF1, 0xFF00
DEBUG = (b".debug_", b".rel.debug_")


@dataclass(frozen=True)
class _Section:
    """A section header's fields, and the section's contents."""

    name: bytes
    fields: tuple[int, ...]
    data: bytes

    def with_fields(self, **changes: int) -> "_Section":
        names = (
            "name",
            "type",
            "flags",
            "addr",
            "offset",
            "size",
            "link",
            "info",
            "align",
            "entry",
        )
        fields = dict(zip(names, self.fields, strict=True)) | changes
        return replace(self, fields=tuple(fields.values()))

    @property
    def type(self) -> int:
        return self.fields[1]

    @property
    def link(self) -> int:
        return self.fields[6]

    @property
    def info(self) -> int:
        return self.fields[7]

    @property
    def align(self) -> int:
        return max(1, self.fields[8])


def without_debug_sections(data: bytes) -> bytes:
    """The object without `.debug_*` and their relocations; symbols of those sections become absolute."""
    header = HEADER.unpack_from(data)
    if data[:6] != b"\x7fELF\x02\x01":
        raise InternalError("LLVM wrote no little-endian ELF object of 64 bits")
    sections = _sections(data, header)
    kept = [at for at, section in enumerate(sections) if not section.name.startswith(DEBUG)]
    number = {at: new for new, at in enumerate(kept)}
    out = bytearray(HEADER.size)
    headers = []
    for at in kept:
        section = _renumbered(sections[at], number)
        if section.type not in (0, NOBITS):
            out += bytes(-len(out) % section.align)
        headers.append(section.with_fields(offset=len(out) if section.type else 0).fields)
        if section.type != NOBITS:
            out += section.data
    out += bytes(-len(out) % 8)
    start = len(out)
    for fields in headers:
        out += SECTION.pack(*fields)
    changed = (*header[:6], start, *header[7:12], len(kept), number[header[13]])
    out[: HEADER.size] = HEADER.pack(*changed)
    return bytes(out)


def _sections(data: bytes, header: tuple[int, ...]) -> list[_Section]:
    start, size, count, names_at = header[6], header[11], header[12], header[13]
    raw = [SECTION.unpack_from(data, start + at * size) for at in range(count)]
    names = raw[names_at]
    table = data[names[4] : names[4] + names[5]]
    return [
        _Section(
            table[fields[0] : table.index(b"\0", fields[0])],
            fields,
            b"" if fields[1] in (0, NOBITS) else data[fields[4] : fields[4] + fields[5]],
        )
        for fields in raw
    ]


def _renumbered(section: _Section, number: dict[int, int]) -> _Section:
    """The section with the new numbers of the sections that it refers to."""
    if section.type == 0:
        return section
    changed = section.with_fields(link=number.get(section.link, 0))
    if section.type == REL:
        changed = changed.with_fields(info=number[section.info])
    if section.type == SYMTAB:
        changed = replace(changed, data=_symbols(section.data, number))
    return changed


def _symbols(table: bytes, number: dict[int, int]) -> bytes:
    """The symbols keep their places, to which relocations refer."""
    out = bytearray()
    for name, info, other, at, value, size in SYMBOL.iter_unpack(table):
        if at == 0 or at >= SPECIAL:
            out += SYMBOL.pack(name, info, other, at, value, size)
        elif at in number:
            out += SYMBOL.pack(name, info, other, number[at], value, size)
        else:  # the section's own symbol, or a label in it
            out += SYMBOL.pack(0, 0, 0, ABSOLUTE, 0, 0)
    return bytes(out)
