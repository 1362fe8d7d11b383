# SPDX-License-Identifier: Apache-2.0
"""BTF: the types of an object (the kernel's Documentation/bpf/btf.rst), as far as layouts need them.

Provides sizes, members by path, and the variables of a section. Type ids are checked when they are
followed. Following them always ends: a type that contains itself is an `ObjectError`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from policyc.verifier.bytecode.errors import ObjectError
from policyc.verifier.bytecode.fields import numbers, part, text

_MAGIC = 0xEB9F
_STEP = re.compile(r"(\w+)((?:\[\d+\])*)")
_INDEX = re.compile(r"\d+")
_DEPTH = 32
"""The maximal depth of nested types; our C stays far below."""


class Kind(IntEnum):
    """BTF_KIND_*."""

    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


_MODIFIERS = (Kind.TYPEDEF, Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.TYPE_TAG)
_FIXED = {Kind.INT: 4, Kind.ARRAY: 12, Kind.VAR: 4, Kind.DECL_TAG: 4}
_EACH = {
    Kind.STRUCT: 12,
    Kind.UNION: 12,
    Kind.ENUM: 8,
    Kind.FUNC_PROTO: 8,
    Kind.DATASEC: 12,
    Kind.ENUM64: 12,
}


@dataclass(frozen=True, slots=True)
class Type:
    """A type: `size_or_type` is its size in bytes or the id of the type that it refers to."""

    kind: Kind
    name: str
    size_or_type: int
    count: int
    flag: bool
    extra: bytes


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a struct or union; `bits` is 0 if it is not a bit field."""

    name: str
    type: int
    bit_offset: int
    bits: int


@dataclass(frozen=True, slots=True)
class Place:
    """The offset of a member in its struct, in bytes, and its type."""

    offset: int
    size: int
    type: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a section."""

    name: str
    type: int
    offset: int
    size: int


@dataclass(frozen=True)
class Btf:
    """The types by id; 0 is void."""

    types: tuple[Type, ...]
    strings: bytes

    def type(self, ident: int) -> Type:
        """The type of an id."""
        if not 0 <= ident < len(self.types):
            raise ObjectError(f"BTF has no type {ident}")
        return self.types[ident]

    def plain(self, ident: int) -> int:
        """The id behind typedefs and qualifiers."""
        for _ in range(_DEPTH):
            found = self.type(ident)
            if found.kind not in _MODIFIERS:
                return ident
            ident = found.size_or_type
        raise ObjectError(f"BTF: type {ident} qualifies itself, or too often")

    def size(self, ident: int, depth: int = 0) -> int:
        """The size of a type in bytes."""
        found = self.type(self.plain(ident))
        if depth > _DEPTH:
            raise ObjectError("BTF: an array is nested too deeply")
        match found.kind:
            case Kind.ARRAY:
                element, count = self.array(ident)
                return self.size(element, depth + 1) * count
            case Kind.PTR:
                return 8
            case Kind.INT | Kind.STRUCT | Kind.UNION | Kind.ENUM | Kind.ENUM64 | Kind.FLOAT:
                return found.size_or_type
        raise ObjectError(f"BTF: a {found.kind.name} has no size")

    def array(self, ident: int) -> tuple[int, int]:
        """The element type and the number of elements of an array."""
        found = self.type(self.plain(ident))
        if found.kind is not Kind.ARRAY:
            raise ObjectError(f"BTF: {found.name or found.kind.name} is no array")
        element, _index, count = numbers(found.extra, "III", 0, "a BTF array")
        return element, count

    def pointed_to(self, ident: int) -> int:
        """The id of the type that a pointer points to."""
        found = self.type(self.plain(ident))
        if found.kind is not Kind.PTR:
            raise ObjectError(f"BTF: {found.name or found.kind.name} is no pointer")
        return found.size_or_type

    def members(self, ident: int) -> Iterator[Member]:
        """The members of a struct or union, in order."""
        found = self.type(self.plain(ident))
        if found.kind not in (Kind.STRUCT, Kind.UNION):
            raise ObjectError(f"BTF: {found.name or found.kind.name} has no members")
        for i in range(found.count):
            name, member, offset = numbers(found.extra, "III", 12 * i, "a BTF member")
            at, bits = (offset & 0xFFFFFF, offset >> 24) if found.flag else (offset, 0)
            yield Member(text(self.strings, name, "a BTF member"), member, at, bits)

    def enumerators(self, name: str) -> Mapping[str, int]:
        """The names of `enum NAME` with their values, unsigned 32-bit numbers."""
        found = self.type(self.named(Kind.ENUM, name))
        pairs = (numbers(found.extra, "II", 8 * i, "a BTF enumerator") for i in range(found.count))
        return {text(self.strings, at, "a BTF enumerator"): value for at, value in pairs}

    @cached_property
    def _by_name(self) -> Mapping[tuple[Kind, str], tuple[int, ...]]:
        found: dict[tuple[Kind, str], tuple[int, ...]] = {}
        for ident, each in enumerate(self.types):
            if each.name:
                found[each.kind, each.name] = (*found.get((each.kind, each.name), ()), ident)
        return found

    def named(self, kind: Kind, name: str) -> int:
        """The id of the first type with a kind and a name."""
        found = self.all_named(kind, name)
        if not found:
            raise ObjectError(f"BTF has no {kind.name.lower()} {name}")
        return found[0]

    def all_named(self, kind: Kind, name: str) -> tuple[int, ...]:
        """The ids of all types with a kind and a name; a kernel may have several."""
        return self._by_name.get((kind, name), ())

    def place(self, struct: str, path: str) -> Place:
        """The place of a member of `struct NAME`, by a path such as `src.id` or `lowest[3]`."""
        return self.place_in(self.named(Kind.STRUCT, struct), path)

    def place_in(self, ident: int, path: str) -> Place:
        """The place of a member in a type given by its id."""
        place = Place(0, self.size(ident), ident)
        for step in path.split("."):
            said = _STEP.fullmatch(step)
            if said is None:
                raise ObjectError(f"BTF: `{path}` is no path")
            place = self._step(place, said[1])
            for index in _INDEX.findall(said[2]):
                place = self._element(place, int(index))
        return place

    def offset_of(self, struct: str, path: str) -> int:
        """The offset of a member in bytes."""
        return self.place(struct, path).offset

    def _step(self, place: Place, name: str) -> Place:
        found = self._find(place, name, set())
        if found is None:
            raise ObjectError(f"BTF: {self.type(self.plain(place.type)).name} has no member {name}")
        return found

    def _find(self, place: Place, name: str, tried: set[int]) -> Place | None:
        """A member, or one inside a member without a name; no type is searched twice."""
        tried.add(self.plain(place.type))
        for member in self.members(place.type):
            if member.name and member.name != name:
                continue
            if member.bits or member.bit_offset % 8:
                if member.name:
                    raise ObjectError(f"BTF: {name} is a bit field")
                continue
            at = place.offset + member.bit_offset // 8
            inner = Place(at, self.size(member.type), member.type)
            if member.name:
                return inner
            is_new = self.plain(member.type) not in tried and len(tried) < _DEPTH
            deeper = self._find(inner, name, tried) if is_new else None
            if deeper is not None:
                return deeper
        return None

    def _element(self, place: Place, index: int) -> Place:
        element, count = self.array(place.type)
        if index >= count:
            raise ObjectError(f"BTF: element {index} of {count}")
        size = self.size(element)
        return Place(place.offset + index * size, size, element)

    def variables(self, section: str) -> tuple[Variable, ...]:
        """The variables of a section.

        Symbols hold their offsets; here, in an object, the offsets are 0.
        """
        found = self.type(self.named(Kind.DATASEC, section))
        return tuple(self._variables(found))

    def _variables(self, section: Type) -> Iterator[Variable]:
        for i in range(section.count):
            ident, offset, size = numbers(section.extra, "III", 12 * i, "a BTF variable")
            variable = self.type(ident)
            if variable.kind is Kind.VAR:  # otherwise a function that another object defines
                yield Variable(variable.name, variable.size_or_type, offset, size)


def read_btf(data: bytes) -> Btf:
    """Read a .BTF section. ObjectError if it is not one, or is truncated."""
    magic, version, _flags, header = numbers(data, "HBBI", 0, "the BTF header")
    if magic != _MAGIC or version != 1:
        raise ObjectError("this is no BTF of version 1, little-endian")
    at, size, strings_at, strings_size = numbers(data, "IIII", 8, "the BTF header")
    strings = part(data, header + strings_at, strings_size, "BTF's strings")
    types = part(data, header + at, size, "BTF's types")
    return Btf((Type(Kind.VOID, "void", 0, 0, False, b""), *_types(types, strings)), strings)


def _types(data: bytes, strings: bytes) -> Iterator[Type]:
    at = 0
    while at < len(data):
        name, info, size_or_type = numbers(data, "III", at, "a BTF type")
        try:
            kind = Kind(info >> 24 & 0x1F)
        except ValueError as error:
            raise ObjectError(f"BTF has a type of kind {info >> 24 & 0x1F}") from error
        count = info & 0xFFFF
        size = _FIXED.get(kind, 0) + _EACH.get(kind, 0) * count
        extra = part(data, at + 12, size, "a BTF type")
        said = text(strings, name, "the name of a BTF type")
        yield Type(kind, said, size_or_type, count, bool(info >> 31), extra)
        at += 12 + size
