# SPDX-License-Identifier: Apache-2.0
"""IR values as JSON and back, with nothing lost: spans and names, too.

A table of distinct values, each after its parts, so that what many rules share is written once. An
entry is `[type, part, ...]`; a part is a JSON scalar as it is, or `[n]`, the n-th entry. The parts of a
dataclass are its fields, in the order that `fields` lists beside the table. Same value, same JSON.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

_FORMAT = ("fields", "entries", "root")
_SCALARS = frozenset({str, int, float, bool})


class DecodingError(ValueError):
    """The JSON is not what `encode` writes, or of another release."""


def encode(value: object, types: Iterable[type]) -> dict[str, Any]:
    """A value made of `types` (dataclasses and enums), tuples, sets, mappings and networks.

    Raises TypeError for a value of any other type.
    """
    writer = _Writer({kind.__name__: kind for kind in types})
    root = writer.part(value)
    return {"fields": writer.fields, "entries": writer.entries, "root": root}


def decode(encoded: object, types: Iterable[type]) -> Any:
    """The value that `encode` wrote. Raises DecodingError for anything else."""
    if not isinstance(encoded, dict) or set(encoded) != set(_FORMAT):
        raise DecodingError(f"expected the fields {', '.join(_FORMAT)}")
    reader = _Reader({kind.__name__: kind for kind in types}, encoded["fields"])
    try:
        for entry in encoded["entries"]:
            reader.values.append(reader.value(*entry))
        return reader.part(encoded["root"])
    except (TypeError, ValueError, LookupError, AttributeError) as failure:
        at = len(reader.values)
        raise DecodingError(f"entry {at} is not of this release: {failure}") from failure


class _Writer:
    """Collects entries; equal ones share a number."""

    def __init__(self, types: Mapping[str, type]) -> None:
        self.fields: dict[str, list[str]] = {}
        self.entries: list[list[Any]] = []
        self._types = types
        self._names: dict[type, list[str]] = {}
        self._numbers: dict[tuple[Any, ...], list[int]] = {}
        self._met: dict[int, tuple[object, list[int]]] = {}

    def part(self, value: object) -> Any:
        """A scalar as it is, anything else by the number of its entry."""
        if value is None or type(value) in _SCALARS:
            return value
        met = self._met.get(id(value))  # the value is kept beside, so that its id stays its own
        if met is not None:
            return met[1]
        names = self._names.get(type(value))
        if names is None:
            entry = self._entry(value)
        else:
            entry = [type(value).__name__, *[self.part(getattr(value, name)) for name in names]]
        # 1, 1.0 and True are equal, and not the same in JSON
        key = (*[p[0] if type(p) is list else p for p in entry], *map(type, entry))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = [len(self.entries)]
            self.entries.append(entry)
        self._met[id(value)] = value, number
        return number

    def _entry(self, value: object) -> list[Any]:
        match value:
            case tuple():
                return ["tuple", *map(self.part, value)]
            case frozenset():
                return ["set", *map(self.part, sorted(value, key=repr))]
            case Mapping():
                return ["map", *(self.part(p) for pair in sorted(value.items()) for p in pair)]
            case IPv4Network() | IPv6Network():
                return ["network", str(value)]
            case IPv4Address() | IPv6Address():
                return ["address", str(value)]
        name = type(value).__name__
        if self._types.get(name) is not type(value):
            raise TypeError(f"{name} is not among the types to be written")
        if isinstance(value, Enum):
            return [name, value.value]
        assert is_dataclass(value)
        names = self.fields.setdefault(name, [f.name for f in fields(value) if f.init])
        self._names[type(value)] = names
        return [name, *(self.part(getattr(value, field)) for field in names)]


class _Reader:
    """Makes the values of entries; each may name those before it."""

    def __init__(self, types: Mapping[str, type], written: Mapping[str, list[str]]) -> None:
        self.values: list[Any] = []
        self._types = types
        for name, names in written.items():
            kind = types.get(name)
            known = [f.name for f in fields(kind) if f.init] if is_dataclass(kind) else []
            if names != known:
                raise DecodingError(f"{name} has other fields in this release")
        self._written = written

    def part(self, part: Any) -> Any:
        """A scalar, or the value of the entry that `[n]` names."""
        if not isinstance(part, list):
            return part
        (number,) = part
        if not 0 <= number < len(self.values):
            raise LookupError(f"there is no entry {number} before it")
        return self.values[number]

    def value(self, kind: str, *parts: Any) -> Any:
        """The value of an entry."""
        values = [self.part(part) for part in parts]
        match kind:
            case "tuple":
                return tuple(values)
            case "set":
                return frozenset(values)
            case "map":
                return dict(zip(values[::2], values[1::2], strict=True))
            case "network":
                return ip_network(*values)
            case "address":
                return ip_address(*values)
        made = self._types[kind]
        if kind in self._written:
            return made(**dict(zip(self._written[kind], values, strict=True)))
        return made(*values)
