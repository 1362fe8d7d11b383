# SPDX-License-Identifier: Apache-2.0
"""Text in the rule language inside a field, and where each of its characters stands in the file.

Exact for literal (`|`) and folded (`>`) blocks, and for plain and quoted text without escapes; where
YAML's escapes move characters, a place degrades to where the field's value begins.
"""

import re
from bisect import bisect_right
from functools import cached_property

from policyc.compiler.frontend.nodes import LongScalar, Scalar
from policyc.ir.spans import Span

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_NOT_BLANK = re.compile(r"\S")


class RuleText:
    """The text of a scalar; `start` and `end` are offsets into it, `end` exclusive."""

    def __init__(self, scalar: Scalar) -> None:
        self.text = scalar.text
        self._scalar = scalar

    def span(self, start: int, end: int) -> Span:
        """Where a part stands; an empty part is the place right behind what is before it."""
        place = self._place(start) if end > start else _behind(self._place(start - 1))
        if place is None:
            return self._scalar.span
        line, column = place
        return Span(self._scalar.file, line, column, column + max(1, end - start))

    def _place(self, offset: int) -> tuple[int, int] | None:
        """(line, column) of a character; None where it is not known."""
        scalar = self._scalar
        if scalar.line == 0 or not 0 <= offset < len(self.text):
            return None
        if isinstance(scalar, LongScalar):
            return self._place_in_lines(offset)
        quotes = 0 if scalar.plain else 2
        if scalar.end_column - scalar.column != len(self.text) + quotes:
            return None
        return scalar.line, scalar.column + quotes // 2 + offset

    def _place_in_lines(self, offset: int) -> tuple[int, int] | None:
        return self._place_in_literal(offset) if self._is_literal else self._place_in_folded(offset)

    def _place_in_literal(self, offset: int) -> tuple[int, int] | None:
        """Each line of the text is one of the file, behind the indentation."""
        at = self._lines_said.number(offset)
        start = self._lines_said.starts[at]
        end = self.text.find("\n", start)
        length = (len(self.text) if end < 0 else end) - start
        if at + 1 >= len(self._lines):
            return None
        indent = len(self._lines[at + 1].rstrip("\r")) - length
        return self._first_line + at + 1, indent + offset - start + 1

    def _place_in_folded(self, offset: int) -> tuple[int, int] | None:
        """Folding moves blanks only: the n-th other character of the text is the n-th written."""
        written, said = self._written, self._said
        nth = bisect_right(said, offset) - 1
        if nth < 0 or nth >= len(written) or said[nth] != offset:
            return None
        raw = self._raw
        at = written[nth]
        if raw[at] != self.text[offset]:
            return None
        before = raw.count("\n", 0, at)
        column = at - raw.rfind("\n", 0, at)
        return self._scalar.line + before, column if before else self._scalar.column + at

    @cached_property
    def _raw(self) -> str:
        assert isinstance(self._scalar, LongScalar)
        return self._scalar.raw

    @cached_property
    def _head(self) -> int:
        """Where the value's style begins to show, behind an anchor or a tag."""
        found = _PROPERTIES.match(self._raw)
        return found.end() if found is not None else 0

    @cached_property
    def _is_literal(self) -> bool:
        return self._raw[self._head : self._head + 1] == "|"

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
        """Where each character that is no blank stands in the raw text, as far as both agree."""
        raw, head = self._raw, self._head
        first = raw[head : head + 1]
        if first == ">":
            head = raw.index("\n", head)
        elif first in ('"', "'"):
            head += 1
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
        """Where a part stands."""
        at = self._lines.number(start)
        column = start - self._lines.starts[at] + 1
        return Span(self._file, at + 1, column, column + max(1, end - start))


class Lines:
    """Where each line of a text begins."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def number(self, offset: int) -> int:
        """The line that a character is on, from 0."""
        return bisect_right(self.starts, offset) - 1


def _behind(place: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if place is None else (place[0], place[1] + 1)
