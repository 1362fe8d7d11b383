# SPDX-License-Identifier: Apache-2.0
"""The tree of one YAML or JSON document: scalars, mappings and sequences, each with its place.

The classes are not frozen: building them is the inner loop of loading, and a frozen dataclass pays for
every field twice (docs/decisions/0003-yaml-events.md). No code changes a node after it is built.
"""

from collections.abc import Iterator
from dataclasses import field

from policyc.compiler.frontend.yaml.scalars import (
    OddNumber,
    Value,
    resolve,
)
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.spans import Span

MAX_DEPTH = 200
"""Far beyond any Kubernetes object, so that what walks a tree may recurse."""
MAX_SHOWN = 120
"""Characters of a value that a message shows."""
_NOT_YET = object()
"""A scalar's value that nobody has asked for; None is a value."""


@dataclass(slots=True, eq=False)
class Scalar:
    """A scalar as written. `plain` says that it was not quoted, so that YAML gives it a type."""

    text: str
    plain: bool
    file: str
    line: int
    column: int
    end_column: int
    _value: object = _NOT_YET

    @property
    def value(self) -> Value:
        """Its value by the rules of Kubernetes' YAML reader, or JSON's."""
        if self._value is _NOT_YET:
            self._value = resolve(self.text) if self.plain else self.text
        return self._value  # type: ignore[return-value]

    @property
    def is_null(self) -> bool:
        """Whether it is null, also by being left out (`key:`)."""
        return self.value is None

    @property
    def span(self) -> Span:
        """Where it stands."""
        return Span(self.file, self.line, self.column, self.end_column)

    def describe(self) -> str:
        """What it is, as messages say it: `the string "80"`, `the number 8`."""
        match self.value:
            case None:
                return "null"
            case bool():
                return f"the boolean {self.text}"
            case int() | float() | OddNumber():
                return f"the number {clipped(self.text, 60)}"
            case _:
                return f'the string "{clipped(self.text, 60)}"'


class LongScalar(Scalar):
    """A scalar over several lines, or with escapes; `raw` is what stands for it in the file.

    It begins with the scalar's first mark, which may be an anchor or a tag.

    For those who find places inside of it (embedded_text.py).
    """

    __slots__ = ("raw",)
    raw: str


@dataclass(slots=True, eq=False)
class Entry:
    """One field of a mapping."""

    key: Scalar
    value: "Node"


@dataclass(slots=True, eq=False)
class Mapping:
    """A mapping; keys are strings and there are no duplicates (the loader refused them)."""

    file: str
    line: int
    column: int
    end_column: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)

    is_null = False

    @property
    def span(self) -> Span:
        """Where it begins: its first key, or its brace."""
        return Span(self.file, self.line, self.column, self.end_column)

    def get(self, name: str) -> "Node | None":
        """The value of a field; None where it is absent or null, which the API takes as one."""
        entry = self.entries.get(name)
        return None if entry is None or entry.value.is_null else entry.value

    def span_of(self, name: str) -> Span:
        """Where a field's value stands; the mapping itself where there is no such field."""
        entry = self.entries.get(name)
        if entry is None:
            return self.span
        value = entry.value
        return entry.key.span if value.is_null or value.line == 0 else value.span

    def span_of_item(self, name: str, index: int) -> Span:
        """Where an item of a list field stands."""
        value = self.get(name)
        if isinstance(value, Sequence) and index < len(value.items):
            return value.items[index].span
        return self.span_of(name)

    def __iter__(self) -> Iterator[tuple[str, Entry]]:
        return iter(self.entries.items())

    def describe(self) -> str:
        """What it is, as messages say it."""
        return "a mapping" if self.entries else "an empty mapping"


@dataclass(slots=True, eq=False)
class Sequence:
    """A list of nodes."""

    file: str
    line: int
    column: int
    end_column: int = 0
    items: list["Node"] = field(default_factory=list)

    is_null = False

    @property
    def span(self) -> Span:
        """Where it begins: its first item, or its bracket."""
        return Span(self.file, self.line, self.column, self.end_column)

    def describe(self) -> str:
        """What it is, as messages say it."""
        return "a list" if self.items else "an empty list"


Node = Scalar | Mapping | Sequence


def from_python(value: object, file: str, depth: int = 0) -> Node:
    """The tree of a value that JSON can hold, all of it at line 0 of `file`.

    Anything else (a date, a set) becomes its text. Raises RecursionError beyond `MAX_DEPTH`.
    """
    if isinstance(value, str):
        return Scalar(value, False, file, 0, 0, 0)
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, dict):
        node = Mapping(file, 0, 0)
        for key, item in value.items():
            name = key if isinstance(key, str) else str(key)
            scalar = Scalar(name, False, file, 0, 0, 0)
            node.entries[name] = Entry(scalar, from_python(item, file, depth + 1))
        return node
    if isinstance(value, list | tuple):
        return Sequence(file, 0, 0, 0, [from_python(item, file, depth + 1) for item in value])
    if value is None:
        return Scalar("null", True, file, 0, 0, 0, None)
    if isinstance(value, bool):
        return Scalar("true" if value else "false", True, file, 0, 0, 0, value)
    if isinstance(value, int | float):
        return Scalar(str(value), True, file, 0, 0, 0, value)
    return Scalar(str(value), False, file, 0, 0, 0)


def empty_mapping(node: Scalar) -> Mapping:
    """What the API reads null as, where it wants an object: one without fields."""
    return Mapping(node.file, node.line, node.column, node.end_column)


def clipped(text: str, longest: int = MAX_SHOWN) -> str:
    """A text as messages show it: the beginning is enough to recognise a long one."""
    return text if len(text) <= longest else text[: longest - 3] + "..."
