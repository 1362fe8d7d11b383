# SPDX-License-Identifier: Apache-2.0
"""A small BTF reader: layouts of structs and names of enums, from the object or map that uses them.

Python packs keys and values of maps from these (runtime/maps), so no layout is declared twice. It
reads what plain C structs need: integers, enums, arrays, nested structs as bytes; no bit fields.
"""

import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from policyc.runtime.errors import InputError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.layout import Field, StructLayout

_INT, _PTR, _ARRAY, _STRUCT, _UNION, _ENUM, _FWD = range(1, 8)
_VAR, _DATASEC = 14, 15
_MODIFIERS = (8, 9, 10, 11, 18)  # typedef, volatile, const, restrict, type tag
# The bytes behind a type's header: a fixed part, and a part per member.
_FIXED = {_INT: 4, _ARRAY: 12, _VAR: 4, 17: 4}
_EACH = {_STRUCT: 12, _UNION: 12, _ENUM: 8, 13: 8, _DATASEC: 12, 19: 12}
_BIG_ENDIAN = ("__be16", "__be32", "__be64")  # typedefs of <linux/types.h>


@dataclass(frozen=True, slots=True)
class _Type:
    kind: int
    name: str
    size_or_type: int
    extra: bytes


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
            return _of_section(_section(path.read_bytes(), ".BTF"))
        except (ValueError, OverflowError, struct.error, IndexError) as error:
            raise InputError(f"{path}: no readable BTF: {error}") from error

    @classmethod
    def of_map(cls, fd: int) -> "Btf":
        """The BTF of the object that made a map; `InputError` when the map has none."""
        ident = bpf_syscall.map_info(fd).btf_id
        if not ident:
            raise InputError("the map has no BTF", "compile the bundle again")
        return _of_kernel(ident)

    def struct(self, name: str) -> StructLayout:
        """The layout of `struct name`."""
        return self._layout(self._find(_STRUCT, name))

    def type(self, ident: int) -> StructLayout:
        """The layout of the struct with a number in this BTF."""
        found = self._types[ident] if ident < len(self._types) else self._types[0]
        if found.kind != _STRUCT:
            raise InputError("a map has other keys or values", "compile the bundle again")
        return self._layout(found)

    def map_names(self) -> frozenset[str]:
        """The maps that the object declares."""
        members = self._find(_DATASEC, ".maps").extra
        ids = (struct.unpack_from("=I", members, at)[0] for at in range(0, len(members), 12))
        return frozenset(self._types[ident].name for ident in ids)

    def has_maps(self) -> bool:
        """Whether the object declares maps."""
        return any((each.kind, each.name) == (_DATASEC, ".maps") for each in self._types)

    def pinned_map_names(self) -> frozenset[str]:
        """The declared maps that libbpf pins by name, so that objects share them."""
        members = self._find(_DATASEC, ".maps").extra
        names = set()
        for at in range(0, len(members), 12):
            variable = self._types[struct.unpack_from("=I", members, at)[0]]
            if "pinning" in self._layout(self._types[variable.size_or_type]).fields:
                names.add(variable.name)
        return frozenset(names)

    def map_types(self) -> dict[str, tuple[int, int]]:
        """The types of keys and values of the declared maps, as numbers in this BTF; 0: it has none."""
        members = self._find(_DATASEC, ".maps").extra
        found = {}
        for at in range(0, len(members), 12):
            variable = self._types[struct.unpack_from("=I", members, at)[0]]
            with _no_contradiction(variable.name):
                said = dict(self._members(self._types[variable.size_or_type]))
                key, value = (
                    self._types[said[name]].size_or_type if name in said else 0
                    for name in ("key", "value")
                )
                found[variable.name] = key, value
        return found

    def shape(self, ident: int) -> object:
        """The type without its own name and typedefs: sizes, and the fields of structs by name.

        Two BTFs lay out a value alike if its shapes are equal.
        """
        found = self._types[ident]
        with _no_contradiction(found.name):
            if found.kind in _MODIFIERS:
                return self.shape(found.size_or_type)
            if found.kind == _ARRAY:
                element, _index, count = struct.unpack_from("=III", found.extra)
                return count, self.shape(element)
            if found.kind in (_STRUCT, _UNION):
                offsets = struct.iter_unpack("=III", found.extra)
                fields = [(self._name(name), bits, self.shape(of)) for name, of, bits in offsets]
                return found.size_or_type, fields
            return self._size(ident)

    def _members(self, found: _Type) -> Iterator[tuple[str, int]]:
        for name, ident, _bits in struct.iter_unpack("=III", found.extra):
            yield self._name(name), ident

    def _name(self, at: int) -> str:
        return _string(self._strings, at)

    def _layout(self, found: _Type) -> StructLayout:
        fields: dict[str, Field] = {}
        with _no_contradiction(found.name):
            for at in range(0, len(found.extra), 12):
                field, ident, bits = struct.unpack_from("=III", found.extra, at)
                if field:
                    fields[_string(self._strings, field)] = self._field(bits // 8, ident)
        return StructLayout(found.name, found.size_or_type, fields)

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

    def _field(self, offset: int, ident: int) -> Field:
        size, count, is_big = self._size(ident), 1, False
        found = self._types[ident]
        while found.kind in _MODIFIERS or found.kind == _ARRAY:
            is_big = is_big or found.name in _BIG_ENDIAN
            if found.kind == _ARRAY:
                element, _index, length = struct.unpack_from("=III", found.extra)
                count *= int(length)
                found = self._types[element]
            else:
                found = self._types[found.size_or_type]
        return Field(offset, size, count, "big" if is_big else sys.byteorder)

    def _size(self, ident: int) -> int:
        found = self._types[ident]
        if found.kind in _MODIFIERS:
            return self._size(found.size_or_type)
        if found.kind == _ARRAY:
            element, _index, count = struct.unpack_from("=III", found.extra)
            return self._size(element) * int(count)
        return 8 if found.kind == _PTR else found.size_or_type


@lru_cache(maxsize=8)  # a process that loads again reads the objects of a node again
def _of_section(data: bytes) -> Btf:
    return Btf(data)


@lru_cache(maxsize=8)  # the maps of a node come from three objects
def _of_kernel(ident: int) -> Btf:
    return Btf(bpf_syscall.btf_data(ident))


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
