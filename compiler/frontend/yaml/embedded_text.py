# SPDX-License-Identifier: Apache-2.0
"""Text in a language of its own inside a field, and the position of each of its characters in the file.

Exact for every style of YAML: literal (`|`) and folded (`>`) blocks, plain and quoted text, escapes, one
line or many. If the source text cannot be followed, a position falls back to that of the field's value.
"""

import re
from bisect import bisect_right
from functools import cached_property

from policyc.compiler.frontend.yaml.scalar_positions import (
    Place,
    flow_places,
)
from policyc.compiler.frontend.yaml.tree import (
    LongScalar,
    Scalar,
)
from policyc.ir.spans import Span

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_Place = tuple[int, int, int]
"""The line of a character, its column, and the column after it."""
_NOT_BLANK = re.compile(r"\S")


class RuleText:
    """The text of a scalar; `start` and `end` are offsets into it, `end` exclusive."""

    def __init__(self, scalar: Scalar) -> None:
        self.text = scalar.text
        self._scalar = scalar

    def span(self, start: int, end: int) -> Span:
        """The place of a part; an empty part is right after the character before it."""
        first = self._place(start) if end > start else _behind(self._place(start - 1))
        if first is None:
            return self._scalar.span
        line, column, behind = first
        last = self._place(end - 1)
        if end > start and last is not None and last[0] == line:
            behind = last[2]
        elif end > start:
            behind = column + end - start
        return Span(self._scalar.file, line, column, max(column + 1, behind))

    def _place(self, offset: int) -> _Place | None:
        """The place of a character; None if it is not known."""
        scalar = self._scalar
        if scalar.line == 0 or not 0 <= offset < len(self.text):
            return None
        if isinstance(scalar, LongScalar):
            return self._place_in_raw(offset)
        quotes = 0 if scalar.plain else 2
        if scalar.end_column - scalar.column != len(self.text) + quotes:
            return None
        column = scalar.column + quotes // 2 + offset
        return scalar.line, column, column + 1

    def _place_in_raw(self, offset: int) -> _Place | None:
        if self._style == "|":
            return self._place_in_literal(offset)
        if self._style == ">":
            return self._place_in_folded(offset)
        if not self._flow:
            return None
        start, end = self._flow[offset]
        line, column = self._where(start)
        return line, column, column + end - start

    def _place_in_literal(self, offset: int) -> _Place | None:
        """Each line of the text is one line of the file, after the indentation."""
        at = self._lines_said.number(offset)
        start = self._lines_said.starts[at]
        end = self.text.find("\n", start)
        length = (len(self.text) if end < 0 else end) - start
        if at + 1 >= len(self._lines):
            return None
        indent = len(self._lines[at + 1].rstrip("\r")) - length
        column = indent + offset - start + 1
        return self._first_line + at + 1, column, column + 1

    def _place_in_folded(self, offset: int) -> _Place | None:
        """Folding moves only blanks: the n-th other character of the text is the n-th in the file."""
        nth = bisect_right(self._said, offset) - 1
        if nth < 0 or nth >= len(self._written):
            return None
        line, column = self._where(self._written[nth])
        column += offset - self._said[nth]
        return line, column, column + 1

    def _where(self, at: int) -> tuple[int, int]:
        """The line and column of a character of the raw text."""
        number = self._raw_lines.number(at)
        column = at - self._raw_lines.starts[number]
        return self._scalar.line + number, column + (1 if number else self._scalar.column)

    @cached_property
    def _flow(self) -> list[Place]:
        """For plain and quoted text, the position of each character in the raw text."""
        return flow_places(self._raw, self._head, self.text)

    @cached_property
    def _raw_lines(self) -> "Lines":
        return Lines(self._raw)

    @cached_property
    def _raw(self) -> str:
        assert isinstance(self._scalar, LongScalar)
        return self._scalar.raw

    @cached_property
    def _head(self) -> int:
        """The start of the value's style indicator, after an anchor or a tag."""
        found = _PROPERTIES.match(self._raw)
        return found.end() if found is not None else 0

    @cached_property
    def _style(self) -> str:
        return self._raw[self._head : self._head + 1]

    @cached_property
    def _first_line(self) -> int:
        """The line of a block's indicator; its text begins on the next."""
        return self._scalar.line + self._raw.count("\n", 0, self._head)

    @cached_property
    def _lines(self) -> list[str]:
        return self._raw[self._head :].split("\n")

    @cached_property
    def _lines_said(self) -> "Lines":
        return Lines(self.text)

    @cached_property
    def _said(self) -> list[int]:
        return [found.start() for found in _NOT_BLANK.finditer(self.text)]

    @cached_property
    def _written(self) -> list[int]:
        """The position of each non-blank character of a folded block in the raw text."""
        raw = self._raw
        head = raw.index("\n", self._head)
        found = [match.start() for match in _NOT_BLANK.finditer(raw, head)]
        text = "".join([raw[at] for at in found[: len(self._said)]])
        said = "".join([self.text[at] for at in self._said])
        return found if text == said else []


class FileText:
    """The text of a whole file."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self._file = file
        self._lines = Lines(text)

    def span(self, start: int, end: int) -> Span:
        """The place of a part."""
        at = self._lines.number(start)
        column = start - self._lines.starts[at] + 1
        return Span(self._file, at + 1, column, column + max(1, end - start))


class Lines:
    """The start of each line of a text."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def number(self, offset: int) -> int:
        """The line that a character is on, from 0."""
        return bisect_right(self.starts, offset) - 1


def _behind(place: _Place | None) -> _Place | None:
    return None if place is None else (place[0], place[2], place[2] + 1)
