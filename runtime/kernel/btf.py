# SPDX-License-Identifier: Apache-2.0
"""A small BTF reader: layouts of structs and names of enums, from the object that uses them.

Python packs map values from these, so that no layout is declared twice. It knows what plain C structs
need: integers, enums, arrays of bytes, nested structs by offset; no bit fields.
"""

import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime.errors import InputError

_INT, _PTR, _ARRAY, _STRUCT, _UNION, _ENUM, _FWD = range(1, 8)
_MODIFIERS = (8, 9, 10, 11, 18)  # typedef, volatile, const, restrict, type tag
# The bytes behind a type's header: a fixed part, and a part per member.
_FIXED = {_INT: 4, _ARRAY: 12, 14: 4, 17: 4}
_EACH = {_STRUCT: 12, _UNION: 12, _ENUM: 8, 13: 8, 15: 12, 19: 12}


@dataclass(frozen=True, slots=True)
class _Type:
    kind: int
    name: str
    size_or_type: int
    extra: bytes


@dataclass(frozen=True, slots=True)
class StructLayout:
    """The size of a struct, and the position of each named field: (offset, size), in bytes."""

    name: str
    size: int
    fields: dict[str, tuple[int, int]]

    def pack(self, **values: int | bytes) -> bytes:
        """The struct with these fields; all others are zero. Bytes must fill their field."""
        out = bytearray(self.size)
        for name, value in values.items():
            offset, size = self.fields[name]
            raw = value if isinstance(value, bytes) else value.to_bytes(size, sys.byteorder)
            if len(raw) != size:
                raise ValueError(f"{self.name}.{name} has {size} bytes, not {len(raw)}")
            out[offset : offset + size] = raw
        return bytes(out)

    def unpack(self, raw: bytes) -> dict[str, bytes]:
        """Every field as its bytes."""
        return {name: raw[at : at + size] for name, (at, size) in self.fields.items()}


class Btf:
    """The types of one object."""

    def __init__(self, data: bytes) -> None:
        magic, _version, _flags, header, types_at, types_len, strings_at, strings_len = (
            struct.unpack_from("=HBBIIIII", data)
        )
        if magic != 0xEB9F:
            raise ValueError("this is no BTF of this machine's byte order")
        strings = data[header + strings_at : header + strings_at + strings_len]
        self._types = [_Type(0, "void", 0, b"")]
        self._types += _read_types(data[header + types_at : header + types_at + types_len], strings)
        self._strings = strings

    @classmethod
    def of_object(cls, path: Path) -> "Btf":
        """The BTF of an ELF object; `InputError` when it has none."""
        try:
            return cls(_section(path.read_bytes(), ".BTF"))
        except (ValueError, OverflowError, struct.error, IndexError) as error:
            raise InputError(f"{path}: no readable BTF: {error}") from error

    def struct(self, name: str) -> StructLayout:
        """The layout of `struct name`."""
        found = self._find(_STRUCT, name)
        fields: dict[str, tuple[int, int]] = {}
        with _no_contradiction(name):
            for at in range(0, len(found.extra), 12):
                field, ident, bits = struct.unpack_from("=III", found.extra, at)
                if field:
                    fields[_string(self._strings, field)] = (bits // 8, self._size(ident))
        return StructLayout(name, found.size_or_type, fields)

    def enum(self, name: str) -> dict[str, int]:
        """The names and values of `enum name`, in the order of the source."""
        extra = self._find(_ENUM, name).extra
        with _no_contradiction(name):
            pairs = (struct.unpack_from("=Ii", extra, at) for at in range(0, len(extra), 8))
            return {_string(self._strings, text): value for text, value in pairs}

    def _find(self, kind: int, name: str) -> _Type:
        for candidate in self._types:
            if candidate.kind == kind and candidate.name == name:
                return candidate
        raise InputError(f"the object's BTF has no type `{name}`", "compile the bundle again")

    def _size(self, ident: int) -> int:
        found = self._types[ident]
        if found.kind in _MODIFIERS:
            return self._size(found.size_or_type)
        if found.kind == _ARRAY:
            element, _index, count = struct.unpack_from("=III", found.extra)
            return self._size(element) * int(count)
        return 8 if found.kind == _PTR else found.size_or_type


@contextmanager
def _no_contradiction(name: str) -> Iterator[None]:
    """Raise InputError if a type refers to a missing type, or contains itself."""
    try:
        yield
    except (ValueError, IndexError, struct.error, RecursionError) as error:
        raise InputError(f"the object's BTF of `{name}` cannot be read: {error}") from error


def _read_types(data: bytes, strings: bytes) -> Iterator[_Type]:
    at = 0
    while at < len(data):
        name, info, size_or_type = struct.unpack_from("=III", data, at)
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        extra = _FIXED.get(kind, 0) + _EACH.get(kind, 0) * members
        yield _Type(kind, _string(strings, name), size_or_type, data[at + 12 : at + 12 + extra])
        at += 12 + extra


def _string(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()


def _section(elf: bytes, wanted: str) -> bytes:
    if elf[:5] != b"\x7fELF\x02":
        raise ValueError("this is no 64-bit ELF object")
    (table,) = struct.unpack_from("=Q", elf, 0x28)
    size, count, names_index = struct.unpack_from("=HHH", elf, 0x3A)
    headers = [struct.unpack_from("=IIQQQQ", elf, table + size * i) for i in range(count)]
    names_at, names_len = headers[names_index][4:6]
    names = elf[names_at : names_at + names_len]
    for name, _kind, _flags, _address, offset, length in headers:
        if _string(names, name) == wanted:
            return elf[offset : offset + length]
    raise ValueError(f"there is no section {wanted}")
