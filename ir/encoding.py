# SPDX-License-Identifier: Apache-2.0
"""IR values as JSON and back without loss, spans and names included.

A value is a table of distinct values, each after its parts, so a part that many rules share is written
once. An entry is `[type, part, ...]`. The type is an index into the table of types, which is stored
separately and is the same for all values. A part is a JSON scalar, or `[n]` for the n-th entry. The
parts of a dataclass are its fields, in the order of the table of types. Equal values give equal JSON.

A value may be encoded relative to a place, `near`. Spans in that file then have null for the file and
count lines from that place, so the encoding does not change if the whole value moves.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import chain
from operator import attrgetter
from typing import Any

from policyc.ir.spans import Span

_BUILT_IN: dict[str, tuple[Callable[..., object], int | None]] = {
    "tuple": (lambda *parts: parts, None),
    "set": (lambda *parts: frozenset(parts), None),
    "map": (lambda *parts: dict(zip(parts[::2], parts[1::2], strict=True)), None),
    "network": (ip_network, 1),
    "address": (ip_address, 1),
}
"""Types other than our own: their constructor and their number of parts (None: any number)."""
_json = json.JSONEncoder(ensure_ascii=False).encode
_SCALARS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    str: _json,
    bool: lambda value: "true" if value else "false",
    int: str,
    float: _json,
}
"""The text of scalars, each as the json module writes it, but faster."""


class DecodingError(ValueError):
    """The JSON was not written by an Encoder, or by one of another release."""


def _field_names(kind: type) -> list[str]:
    """The fields of a dataclass, in the order of its constructor's parameters."""
    return list(getattr(kind, "__match_args__", ()))


class Encoder:
    """Writes values made of `types` (dataclasses and enums), tuples, sets, mappings and networks.

    `table` is the table of types: `[name, field, ...]` of each.
    """

    def __init__(self, types: Iterable[type]) -> None:
        kinds = tuple(types)
        self.table = [[name] for name in _BUILT_IN]
        self.table += [[kind.__name__, *_field_names(kind)] for kind in kinds]
        heads = {name: f"[{number}" for number, (name, *_) in enumerate(self.table)}
        self._shapes = {kind: (heads[kind.__name__], _parts_of(kind)) for kind in kinds}
        self._shapes |= {
            tuple: (heads["tuple"], tuple),
            frozenset: (heads["set"], lambda value: sorted(value, key=repr)),
            dict: (heads["map"], lambda value: chain.from_iterable(sorted(value.items()))),
            IPv4Network: (heads["network"], _text),
            IPv6Network: (heads["network"], _text),
            IPv4Address: (heads["address"], _text),
            IPv6Address: (heads["address"], _text),
        }

    def members(self, value: object, near: Span | None = None) -> str:
        """The members of a JSON object that encode a value: `"entries":[...],"root":...`.

        Raises TypeError for a value of a type outside `types`.
        """
        shapes = self._shapes
        if near is not None and Span in shapes:
            head, parts_of = shapes[Span]
            shapes = shapes | {Span: (head, _seen_from(near, parts_of))}
        writer = _Writer(shapes)
        root = writer.part(value)
        return f'"entries":[{",".join(writer.numbers)}],"root":{root}'


_Parts = Callable[[Any], Iterable[object]]


def _parts_of(kind: type) -> _Parts:
    """The function that splits a value into its parts."""
    if issubclass(kind, Enum):
        return lambda member: (member.value,)
    match _field_names(kind):
        case []:
            return lambda _: ()
        case [name]:
            return lambda value: (getattr(value, name),)
        case names:
            return attrgetter(*names)


def _seen_from(near: Span, parts_of: _Parts) -> _Parts:
    def seen(span: Span) -> Iterable[object]:
        if span.file != near.file:
            return parts_of(span)
        _, _, *columns = parts_of(span)
        return (None, span.line - near.line, *columns)

    return seen


def _text(value: object) -> tuple[str]:
    return (str(value),)


class _Writer:
    """Collects the texts of entries; equal entries share a number."""

    def __init__(self, shapes: Mapping[type, tuple[str, _Parts]]) -> None:
        self.numbers: dict[str, int] = {}
        self._shapes = shapes
        self._met: dict[int, tuple[object, str]] = {}

    def part(self, value: object) -> str:
        """A scalar as it is, any other value as the number of its entry."""
        kind = type(value)
        if kind in _SCALARS:
            return _SCALARS[kind](value)
        met = self._met.get(id(value))  # the value is kept alive, so that its id is not reused
        if met is not None:
            return met[1]
        head, parts_of = self._shape(kind)
        entry = ",".join([head, *map(self.part, parts_of(value))]) + "]"
        number = f"[{self.numbers.setdefault(entry, len(self.numbers))}]"
        self._met[id(value)] = value, number
        return number

    def _shape(self, kind: type) -> tuple[str, _Parts]:
        shape = self._shapes.get(kind)
        if shape is None and issubclass(kind, Mapping):
            return self._shapes[dict]
        if shape is None:
            raise TypeError(f"{kind.__name__} is not among the types to be written")
        return shape


class Decoder:
    """Reads what an Encoder of the same types wrote; `table` is the table of types that it wrote.

    `prefix` is prepended to the file of every span. Raises DecodingError for any other input.
    """

    def __init__(self, types: Iterable[type], table: object, prefix: str = "") -> None:
        self._known = {kind.__name__: kind for kind in types}
        self._prefix = prefix
        if not isinstance(table, list):
            raise DecodingError("there is no table of types")
        self._shapes = {number: self._shape(row) for number, row in enumerate(table)}

    def _shape(self, row: object) -> tuple[Callable[..., object], int | None]:
        match row:
            case [str(name)] if name in _BUILT_IN:
                return _BUILT_IN[name]
            case [str(name), *names]:
                kind = self._known.get(name)
                if kind is None or names != _field_names(kind):
                    raise DecodingError(f"{name} has other fields in this release")
                return kind, 1 if issubclass(kind, Enum) else len(names)
        raise DecodingError(f"{row!r} is no type")

    def value(self, entries: Any, root: object, near: Span | None = None) -> Any:
        """The arguments of `Encoder.members`: a value, and the place that it was encoded relative to."""
        values: dict[int, object] = {}
        try:
            for number, (kind, *parts) in enumerate(entries):
                make, n_parts = self._shapes[kind]
                if n_parts is not None and len(parts) != n_parts:
                    raise ValueError(f"{len(parts)} parts instead of {n_parts}")
                made = [_part(part, values) for part in parts]
                values[number] = self._span(near, *made) if make is Span else make(*made)
            return _part(root, values)
        except (TypeError, ValueError, LookupError, AttributeError) as failure:
            at = len(values)
            raise DecodingError(f"entry {at} is not of this release: {failure}") from failure

    def _span(self, near: Span | None, file: Any, line: Any, *columns: Any) -> Span:
        if file is None and near is not None:
            file, line = near.file, near.line + line
        return Span(self._prefix + file, line, *columns)


def _part(part: object, values: Mapping[int, object]) -> object:
    """A scalar, or the value of the entry that `[n]` names."""
    if not isinstance(part, list):
        return part
    (number,) = part
    if number not in values:
        raise LookupError(f"there is no entry {number} before it")
    return values[number]
