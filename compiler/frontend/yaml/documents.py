# SPDX-License-Identifier: Apache-2.0
"""Bytes of YAML or JSON -> one tree per document, with the place of every node.

Reads libyaml's events in a loop of its own, so nesting costs no stack, and aliases, tags, keys and depth
are checked where they occur. The same parser reads JSON: JSON is YAML in flow style, except for
surrogate pairs, which `_yaml_escape` rewrites.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import yaml
from yaml._yaml import CParser

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.yaml.tree import (
    MAX_DEPTH,
    Entry,
    LongScalar,
    Mapping,
    Node,
    Scalar,
    Sequence,
    clipped,
)
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.spans import Span

MAX_ALIASED = 100_000
"""The limit of nodes from the aliases of a file, all together."""
_STANDARD_TAG = "tag:yaml.org,2002:"
_STANDARD_TAGS = frozenset({"str", "int", "bool", "float", "null", "map", "seq"})
_ODD_BREAK = re.compile("[\\x85\\u2028\\u2029]")
_TEMPLATE = "if `{{` belongs to a template, render the templates first"
_SURROGATES = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


class _RefusedError(Exception):
    """The rest of the file cannot be read; the finding is in the report."""


def read_documents(data: bytes, file: str, report: Report) -> Iterator[Node]:
    """The documents of a file, as far as it can be read; mistakes go to `report`."""
    text = _decoded(data, file, report)
    if text is None:
        return
    try:
        yield from _Builder(text, file, report).documents()
    except yaml.YAMLError as failure:
        report.add(_syntax_finding(failure, text, file))
    except _RefusedError:
        return


def _decoded(data: bytes, file: str, report: Report) -> str | None:
    """The text, without a byte order mark."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        line = data.count(b"\n", 0, bad.start) + 1
        column = bad.start - (data.rfind(b"\n", 0, bad.start) + 1) + 1
        finding = codes.NOT_UTF8.at(Span(file, line, column), byte=f"0x{data[bad.start]:02x}")
        report.add(finding.help("save the file as UTF-8"))
        return None
    if _ODD_BREAK.search(text) and _is_json(text):
        text = _ODD_BREAK.sub(lambda odd: f"\\u{ord(odd[0]):04x}", text)  # only strings have them
    if not _has_lines_of_one_reading(text, file, report):
        return None
    return _SURROGATES.sub(_yaml_escape, text) if "\\u" in text else text


def _has_lines_of_one_reading(text: str, file: str, report: Report) -> bool:
    """Refuse characters that end a line only in YAML 1.1, so that a comment could hide a rule."""
    odd = _ODD_BREAK.search(text)
    if odd is not None:
        span = _place(text, odd.start(), file)
        finding = codes.ODD_LINE_BREAK.at(span, character=f"U+{ord(odd[0]):04X}")
        report.add(finding.help("remove it, or write it as an escape in double quotes"))
        return False
    mark = text.find("\ufeff")
    if mark >= 0:
        finding = codes.BYTE_ORDER_MARK.at(_place(text, mark, file))
        report.add(finding.help("remove it; it may stand at the beginning of a file only"))
        return False
    return True


def _is_json(text: str) -> bool:
    """Whether the whole file is JSON, in whose strings U+2028 and U+2029 may stand."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _place(text: str, offset: int, file: str) -> Span:
    """The place of a character, with lines as an editor counts them."""
    before = text[:offset]
    return Span(file, before.count("\n") + 1, offset - before.rfind("\n"))


def _yaml_escape(pair: re.Match[str]) -> str:
    """A JSON surrogate pair as the single YAML escape that libyaml accepts.

    It is two characters shorter, so columns after it on its line are off by two.
    """
    high, low = (int(half, 16) for half in pair.groups())
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def _syntax_finding(failure: yaml.YAMLError, text: str, file: str) -> Diagnostic:
    """The error of libyaml; a tab, the usual cause, has a code of its own."""
    if isinstance(failure, yaml.MarkedYAMLError) and failure.problem_mark is not None:
        mark = failure.problem_mark
        lines = text.split("\n", mark.line + 1)
        line = lines[mark.line] if mark.line < len(lines) else ""
        span = Span(file, mark.line + 1, mark.column + 1)
        if line[mark.column : mark.column + 1] == "\t" or line[: mark.column].strip(" ") == "\t":
            return codes.TAB.at(span).help("indent with spaces")
        problem = str(failure.problem)
        if "{{" in line:
            finding = codes.YAML_SYNTAX.at(span, problem=problem)
            return finding.help(_TEMPLATE)
        context = f" {failure.context}" if failure.context else ""
        return codes.YAML_SYNTAX.at(span, problem=problem + context)
    position = getattr(failure, "position", 0)
    before = text.encode()[:position].decode(errors="replace")
    span = Span(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
    return codes.YAML_SYNTAX.at(span, problem=getattr(failure, "reason", str(failure)))


@dataclass(slots=True)
class _Frame:
    """A mapping or sequence that has not ended, and its key in its parent."""

    node: Mapping | Sequence
    key: Scalar | None
    anchor: str | None
    count: int


class _Builder:
    """Builds trees from events; one for a file."""

    def __init__(self, text: str, file: str, report: Report) -> None:
        # Any: the stubs make every mark optional, and an assertion per node costs time.
        self._next_event: Callable[[], Any] = CParser(text).get_event
        self._text = text
        self._file = file
        self._report = report
        self._count = 0
        self._aliased = 0
        self._anchors: dict[str, tuple[Node, int, Span]] = {}
        self._open: dict[str, tuple[Node, Span]] = {}
        self._stack: list[_Frame] = []

    def documents(self) -> Iterator[Node]:
        """One tree a document."""
        get_event = self._next_event
        while (event := get_event()) is not None:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()
                self._open.clear()
                yield self._tree()

    def _tree(self) -> Node:
        """The next node with its contents. The loop is flat because the input controls the nesting."""
        get_event = self._next_event
        stack = self._stack
        key: Scalar | None = None
        while True:
            event = get_event()
            kind = type(event)
            node: Node
            if kind is yaml.ScalarEvent:
                node = self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                stack.append(self._begin(event, kind, key))
                key = None
                continue
            elif kind is yaml.AliasEvent:
                node = self._alias(event)
            else:
                frame = stack.pop()
                node, key = frame.node, frame.key
                self._end(event, frame)
            if not stack:
                return node
            parent = stack[-1].node
            if isinstance(parent, Sequence):
                parent.items.append(node)
            elif key is None:
                key = self._key(node)
            else:
                self._put(parent, key, node)
                key = None

    def _scalar(self, event: Any) -> Scalar:
        start, end = event.start_mark, event.end_mark
        line = start.line
        plain = not event.style
        column = start.column + 1
        node: Scalar
        width = end.column - start.column if end.line == line else 0
        if width and width == len(event.value) + (0 if plain else 2):
            node = Scalar(event.value, plain, self._file, line + 1, column, end.column + 1)
        else:  # over several lines, or with an escape: the source text differs from the value
            end_column = end.column + 1 if width else 0
            node = LongScalar(event.value, plain, self._file, line + 1, column, end_column)
            node.raw = self._text[start.index : end.index]
        self._count += 1
        if event.tag is not None:
            self._apply_tag(event.tag, node)
        if event.anchor is not None:
            self._open.pop(event.anchor, None)
            self._anchors[event.anchor] = (node, 1, node.span)
        return node

    def _begin(self, event: Any, kind: type, key: Scalar | None) -> "_Frame":
        """The frame of a mapping or sequence that begins here."""
        start = event.start_mark
        made = Mapping if kind is yaml.MappingStartEvent else Sequence
        node = made(self._file, start.line + 1, start.column + 1)
        if event.tag is not None:
            self._check_tag(event.tag, node.span)
        if event.anchor is not None:
            self._open[event.anchor] = (node, node.span)
        if len(self._stack) >= MAX_DEPTH:
            self._refuse(codes.TOO_DEEP.at(node.span, limit=MAX_DEPTH))
        self._count += 1
        return _Frame(node, key, event.anchor, self._count - 1)

    def _end(self, event: Any, frame: "_Frame") -> None:
        """Close a mapping or sequence: record its end, and the node of its anchor."""
        node = frame.node
        if event.end_mark.line + 1 == node.line:
            node.end_column = event.end_mark.column + 1
        if frame.anchor is not None and self._is_latest(frame.anchor, node):
            del self._open[frame.anchor]
            self._anchors[frame.anchor] = (node, self._count - frame.count, node.span)

    def _is_latest(self, anchor: str, node: Node) -> bool:
        """Whether an alias after this node refers to it, and not to one inside with an equal anchor.

        The last anchor that *begins* before an alias counts (YAML 1.1, 3.2.2.2).
        """
        return anchor in self._open and self._open[anchor][0] is node

    def _key(self, node: Node) -> Scalar:
        """A mapping's key, which must be a string, as in JSON."""
        if not isinstance(node, Scalar):
            finding = codes.KEY_NOT_STRING.at(node.span, found=node.describe())
            self._refuse(finding.help(_TEMPLATE if isinstance(node, Mapping) else ""))
        if node.plain:
            if node.text == "<<":
                finding = codes.MERGE_KEY.at(node.span)
                self._refuse(finding.help("write the merged fields out where they are needed"))
            if not isinstance(node.value, str):
                finding = codes.KEY_NOT_STRING.at(node.span, found=node.describe())
                self._report.add(finding.help(f'quote it: "{clipped(node.text)}"'))
        return node

    def _put(self, parent: Mapping, key: Scalar, value: Node) -> None:
        earlier = parent.entries.get(key.text)
        if earlier is None:
            parent.entries[key.text] = Entry(key, value)
            return
        finding = codes.DUPLICATE_KEY.at(key.span, key=clipped(key.text))
        self._report.add(finding.note(earlier.key.span, "first given here").help("keep one"))

    def _alias(self, event: Any) -> Node:
        """The node of an alias, counted again: expanded, it is one more copy."""
        mark = event.start_mark
        span = Span(self._file, mark.line + 1, mark.column + 1, event.end_mark.column + 1)
        name = str(event.anchor)
        if name in self._open:
            finding = codes.ALIAS_IN_ITSELF.at(span, name=name)
            self._refuse(finding.note(self._open[name][1], "the anchor is here"))
        if name not in self._anchors:
            self._refuse(codes.NO_ANCHOR.at(span, name=clipped(name)))
        node, size, anchor = self._anchors[name]
        self._count += size
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            finding = codes.ALIAS_BOMB.at(span, limit=MAX_ALIASED)
            self._refuse(finding.note(anchor, "the anchor is here"))
        return node

    def _apply_tag(self, tag: str, node: Scalar) -> None:
        """`!!str 80` is a string, `! 80` too; the other standard tags change nothing here."""
        self._check_tag(tag, node.span)
        node.plain = tag not in ("!", _STANDARD_TAG + "str")

    def _check_tag(self, tag: str, span: Span) -> None:
        if tag == "!" or tag.removeprefix(_STANDARD_TAG) in _STANDARD_TAGS:
            return
        shown = tag.replace(_STANDARD_TAG, "!!")
        self._report.add(codes.TAG.at(span, tag=clipped(shown)).help("remove the tag"))

    def _refuse(self, finding: Diagnostic) -> NoReturn:
        self._report.add(finding)
        raise _RefusedError
