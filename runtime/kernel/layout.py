# SPDX-License-Identifier: Apache-2.0
"""The layout of a C struct: packs and reads the keys and values of maps (btf.py finds the layout)."""

import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from policyc.runtime.errors import HostError

Value = int | bytes | Sequence[int] | Sequence[bytes]
"""A number, the bytes of the whole field, or the first elements of an array."""
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}  # of the module struct, by size


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct. Numbers are big-endian where the C type says so (`__be16`)."""

    offset: int
    """From the start of the struct, in bytes."""
    size: int
    """Bytes of the whole field; of an array, of all its elements."""
    count: int
    """Elements of an array; 1 for other fields."""
    order: Literal["little", "big"]

    @property
    def end(self) -> int:
        """The offset behind the field."""
        return self.offset + self.size

    def pack(self, value: Value) -> bytes:
        """The bytes of the field. Bytes must fill it; elements that are not given are zero.

        Raises `ValueError` for a value of another size, `OverflowError` for a number that is too large.
        """
        if isinstance(value, bytes):
            raw = value
        elif isinstance(value, int):
            raw = value.to_bytes(self.size, self.order)
        else:
            each = self.size // self.count
            parts = (v if isinstance(v, bytes) else v.to_bytes(each, self.order) for v in value)
            raw = b"".join(parts).ljust(self.size, b"\0")
        if len(raw) != self.size:
            raise ValueError(f"the field has {self.size} bytes, not {len(raw)}")
        return raw


@dataclass(frozen=True, slots=True)
class StructLayout:
    """The size of a struct in bytes, and its fields by name."""

    name: str
    size: int
    fields: dict[str, Field]

    def field(self, name: str) -> Field:
        """A field; `HostError` if the struct has none of that name."""
        try:
            return self.fields[name]
        except KeyError as error:
            raise HostError(
                f"`struct {self.name}` of the hooks has no field `{name}`",
                "another release of policyc made them: compile the bundle again, run `policyc node "
                "unload`, then load it",
            ) from error

    def pack(self, **values: Value) -> bytes:
        """The struct with these fields; all others are zero."""
        out = bytearray(self.size)
        for name, value in values.items():
            field = self.field(name)
            try:
                out[field.offset : field.end] = field.pack(value)
            except ValueError as error:
                raise ValueError(f"{self.name}.{name}: {error}") from error
        return bytes(out)

    def packer(self, *names: str) -> Callable[..., bytes]:
        """A function as `pack`, which takes the values of these fields in this order. For many entries.

        Numbers are given for fields of one number, and bytes for all others.
        """
        places = sorted(range(len(names)), key=lambda i: self.field(names[i]).offset)
        codes, at, big = ["="], 0, {}
        for place in places:
            field = self.field(names[place])
            is_number = field.count == 1 and field.size in _CODES
            if is_number and field.order != sys.byteorder:
                big[place] = field.size
            code = _CODES[field.size] if is_number and place not in big else f"{field.size}s"
            codes.append(f"{field.offset - at}x{code}")
            at = field.end
        packed = struct.Struct("".join([*codes, f"{self.size - at}x"]))

        def pack(*values: int | bytes) -> bytes:
            given = list(values)
            for place, size in big.items():
                value = given[place]
                given[place] = value.to_bytes(size, "big") if isinstance(value, int) else value
            return packed.pack(*[given[place] for place in places])

        return pack

    def unpack(self, raw: bytes) -> dict[str, bytes]:
        """Every field as its bytes."""
        return {name: self.raw(raw, name) for name in self.fields}

    def number(self, raw: bytes, name: str) -> int:
        """A field as a number."""
        field = self.field(name)
        return int.from_bytes(raw[field.offset : field.end], field.order)

    def numbers(self, raw: bytes, name: str) -> tuple[int, ...]:
        """The elements of an array of numbers."""
        field = self.field(name)
        each = field.size // field.count
        return tuple(
            int.from_bytes(raw[at : at + each], field.order)
            for at in range(field.offset, field.end, each)
        )

    def raw(self, raw: bytes, name: str) -> bytes:
        """The bytes of a field."""
        field = self.field(name)
        return raw[field.offset : field.end]

    def cutter(self, *names: str) -> Callable[[bytes], bytes]:
        """A function that gives the bytes of these fields, in the struct's order. For many entries."""
        spans: list[tuple[int, int]] = []
        for field in sorted(map(self.field, names), key=lambda each: each.offset):
            if spans and spans[-1][1] == field.offset:
                spans[-1] = spans[-1][0], field.end
            else:
                spans.append((field.offset, field.end))
        return lambda raw: b"".join([raw[first:end] for first, end in spans])
