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
"""The depth limit: far beyond any Kubernetes object, so that tree walks may recurse."""
MAX_SHOWN = 120
"""The number of characters of a value that a message shows."""
_NOT_YET = object()
"""The marker of a scalar's value that is not computed yet; None is a value."""


@dataclass(slots=True, eq=False)
class Scalar:
    """A scalar as written. `plain`: it was not quoted, so YAML gives it a type."""

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
        """Whether it is null, including an omitted value (`key:`)."""
        return self.value is None

    @property
    def span(self) -> Span:
        """Its place."""
        return Span(self.file, self.line, self.column, self.end_column)

    def describe(self) -> str:
        """Its description in messages: `the string "80"`, `the number 8`."""
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
    """A scalar over several lines, or with escapes; `raw` is its source text in the file.

    It begins with the scalar's first mark, which may be an anchor or a tag.

    For code that computes places inside of it (embedded_text.py).
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
        """The place of its beginning: its first key, or its brace."""
        return Span(self.file, self.line, self.column, self.end_column)

    def get(self, name: str) -> "Node | None":
        """The value of a field; None if it is absent or null, which the API treats alike."""
        entry = self.entries.get(name)
        return None if entry is None or entry.value.is_null else entry.value

    def span_of(self, name: str) -> Span:
        """The place of a field's value; the mapping itself if there is no such field."""
        entry = self.entries.get(name)
        if entry is None:
            return self.span
        value = entry.value
        return entry.key.span if value.is_null or value.line == 0 else value.span

    def span_of_item(self, name: str, index: int) -> Span:
        """The place of an item of a list field."""
        value = self.get(name)
        if isinstance(value, Sequence) and index < len(value.items):
            return value.items[index].span
        return self.span_of(name)

    def __iter__(self) -> Iterator[tuple[str, Entry]]:
        return iter(self.entries.items())

    def describe(self) -> str:
        """Its description in messages."""
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
        """The place of its beginning: its first item, or its bracket."""
        return Span(self.file, self.line, self.column, self.end_column)

    def describe(self) -> str:
        """Its description in messages."""
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
    """An object without fields: the API's reading of null where an object is required."""
    return Mapping(node.file, node.line, node.column, node.end_column)


def clipped(text: str, longest: int = MAX_SHOWN) -> str:
    """A text as messages show it: the beginning is enough to recognise a long one."""
    return text if len(text) <= longest else text[: longest - 3] + "..."
