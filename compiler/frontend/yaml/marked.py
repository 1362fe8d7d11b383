# SPDX-License-Identifier: Apache-2.0
"""YAML text -> a tree that knows where each node begins and ends, for edits of the text.

`documents.py` reads values with the places that messages show. An edit also needs the end of a node,
its style, its anchors, and the document markers. The text must be one that `documents.py` accepts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from yaml._yaml import CParser

from policyc.ir.errors import InternalError


@dataclass(frozen=True, slots=True)
class Marks:
    """The extent of a node: characters `start` to `end` (exclusive), and its line and column from 1.

    `is_flow`: it is in brackets, braces or quotes. `is_named`: it has an anchor or a tag, or is an
    alias.
    """

    start: int
    end: int
    line: int
    column: int
    is_flow: bool
    is_named: bool


@dataclass(frozen=True, slots=True)
class MarkedScalar:
    """A scalar, or an alias, whose value is not needed."""

    marks: Marks
    text: str


@dataclass(frozen=True, slots=True)
class MarkedSequence:
    """A list."""

    marks: Marks
    items: tuple["MarkedNode", ...]


@dataclass(frozen=True, slots=True)
class MarkedMapping:
    """A mapping: pairs of key and value, in the order of the text."""

    marks: Marks
    entries: tuple[tuple["MarkedNode", "MarkedNode"], ...]

    def entry(self, name: str) -> tuple[MarkedScalar, "MarkedNode"] | None:
        """The key and the value of a field; None if there is no such field."""
        for key, value in self.entries:
            if isinstance(key, MarkedScalar) and key.text == name:
                return key, value
        return None

    def get(self, name: str) -> "MarkedNode | None":
        """The value of a field; None if there is no such field."""
        found = self.entry(name)
        return None if found is None else found[1]


MarkedNode = MarkedScalar | MarkedSequence | MarkedMapping


@dataclass(frozen=True, slots=True)
class MarkedDocument:
    """A document. `start` is the offset of its `---`, or of its root if it has none.

    `is_plain`: it has neither a directive nor the end marker `...`.
    """

    root: MarkedNode
    start: int
    is_explicit: bool
    is_plain: bool


def marked_documents(text: str) -> list[MarkedDocument]:
    """The documents of a text without a byte order mark. Raises yaml.YAMLError for other text."""
    return list(_Reader(text).documents())


def nodes_of(node: MarkedNode) -> Iterator[MarkedNode]:
    """The node and all nodes inside of it."""
    yield node
    if isinstance(node, MarkedSequence):
        for item in node.items:
            yield from nodes_of(item)
    elif isinstance(node, MarkedMapping):
        for key, value in node.entries:
            yield from nodes_of(key)
            yield from nodes_of(value)


class _Reader:
    """Reads the events of one text; recursive, because `documents.py` limits the depth."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next: Any = CParser(text).get_event

    def documents(self) -> Iterator[MarkedDocument]:
        while (event := self._next()) is not None:
            if _is(event, yaml.DocumentStartEvent):
                root = self._node(self._next())
                end = self._next()
                has_directive = event.version is not None or bool(event.tags)
                start = event.start_mark.index if event.explicit else root.marks.start
                is_plain = not has_directive and not end.explicit
                yield MarkedDocument(root, start, event.explicit, is_plain)

    def _node(self, event: Any) -> MarkedNode:
        if _is(event, yaml.AliasEvent):
            return MarkedScalar(_marks(event, event.end_mark.index, False, True), "")
        is_named = event.anchor is not None or event.tag is not None
        if _is(event, yaml.ScalarEvent):
            end = event.end_mark.index
            if event.style in ("|", ">"):  # its end mark is behind the blank lines after it
                end = len(self._text[:end].rstrip())
            is_flow = event.style in ("'", '"')
            return MarkedScalar(_marks(event, end, is_flow, is_named), event.value)
        if _is(event, yaml.SequenceStartEvent):
            return self._sequence(event, is_named)
        if _is(event, yaml.MappingStartEvent):
            return self._mapping(event, is_named)
        raise InternalError(f"no node begins with {event}")

    def _sequence(self, start: Any, is_named: bool) -> MarkedSequence:
        items: list[MarkedNode] = []
        while not _is(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(event))
        end = _end(start, event, items[-1:])
        return MarkedSequence(_marks(start, end, bool(start.flow_style), is_named), tuple(items))

    def _mapping(self, start: Any, is_named: bool) -> MarkedMapping:
        entries: list[tuple[MarkedNode, MarkedNode]] = []
        while not _is(event := self._next(), yaml.MappingEndEvent):
            key = self._node(event)
            entries.append((key, self._node(self._next())))
        end = _end(start, event, [value for _, value in entries[-1:]])
        return MarkedMapping(_marks(start, end, bool(start.flow_style), is_named), tuple(entries))


def _is(event: Any, kind: type[yaml.Event]) -> bool:
    """Whether an event is of a kind; it stays Any, because the stubs make every mark optional."""
    return isinstance(event, kind)


def _end(start: Any, end: Any, last: list[MarkedNode]) -> int:
    """The end of a collection. In block style libyaml's mark is at the next token, behind comments."""
    if start.flow_style or not last:
        return int(end.end_mark.index)
    return last[0].marks.end


def _marks(event: Any, end: int, is_flow: bool, is_named: bool) -> Marks:
    mark = event.start_mark
    return Marks(mark.index, end, mark.line + 1, mark.column + 1, is_flow, is_named)
