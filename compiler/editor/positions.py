# SPDX-License-Identifier: Apache-2.0
"""Places of findings and positions of an editor: characters by line here, code units by line there.

YAML ends lines at more characters than the protocol does, and an editor counts the units of UTF-16, or
of another encoding that both agreed on.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain

from policyc.ir.spans import Span

Position = tuple[int, int]
"""Line and code unit, both from 0."""
_YAML_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_EDITOR_END = re.compile("\r\n|[\n\r]")
_WORD = re.compile(r"[^\s,\]}]+")
_BYTES = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


@dataclass(frozen=True)
class Text:
    """A text, and the encoding whose units its positions count."""

    text: str
    encoding: str = "utf-16"

    @cached_property
    def _yaml_lines(self) -> list[int]:
        return _starts(_YAML_END, self.text)

    @cached_property
    def _lines(self) -> list[int]:
        return _starts(_EDITOR_END, self.text)

    def range_of(self, span: Span) -> tuple[Position, Position]:
        """The range of a place. Without an end it is the word there; without a line, the first line."""
        if span.line == 0:
            return (0, 0), self.position(_line_end(self.text, 0))
        start = self._offset(span.line, span.column)
        if span.end_column > span.column:
            end = min(self._offset(span.line, span.end_column), len(self.text))
        else:
            word = _WORD.match(self.text, start)
            end = min(start + 1, len(self.text)) if word is None else word.end()
        return self.position(start), self.position(end)

    def _offset(self, line: int, column: int) -> int:
        starts = self._yaml_lines
        return min(starts[min(line, len(starts)) - 1] + column - 1, len(self.text))

    def position(self, offset: int) -> Position:
        """The position of a character."""
        line = bisect_right(self._lines, offset) - 1
        return line, self._units(self.text[self._lines[line] : offset])

    def offset(self, position: Position) -> int:
        """The character at a position; the end of the line where it is shorter."""
        line, units = position
        if line >= len(self._lines):
            return len(self.text)
        start = self._lines[line]
        end = _line_end(self.text, start)
        widths = accumulate(map(self._units, self.text[start:end]))
        return start + sum(1 for width in widths if width <= units)

    def _units(self, text: str) -> int:
        codec, size = _BYTES[self.encoding]
        return len(text.encode(codec, "surrogatepass")) // size


def yaml_lines(text: str) -> list[str]:
    """The lines of a text as YAML counts them, without their ends."""
    return _YAML_END.split(text)


def _starts(ends: re.Pattern[str], text: str) -> list[int]:
    """The offset of each line."""
    return list(chain((0,), (found.end() for found in ends.finditer(text))))


def _line_end(text: str, start: int) -> int:
    found = _EDITOR_END.search(text, start)
    return len(text) if found is None else found.start()
