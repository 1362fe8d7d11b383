# SPDX-License-Identifier: Apache-2.0
"""A page of text: lines with an indent and a style, folded at words and coloured on request."""

import re
from dataclasses import dataclass, field
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from policyc.backends.report.options import TERMINAL_COLUMNS, ReportOptions
from policyc.ir.printable import printable

GOOD, BAD, WARN, FAINT, STRONG = "green", "red", "yellow", "dim", "bold"
"""The styles of lines and parts."""


@dataclass(frozen=True, slots=True)
class _Line:
    text: Text
    indent: int
    hanging: int
    is_foldable: bool


@dataclass
class Page:
    """Lines in reading order."""

    lines: list[_Line] = field(default_factory=list)

    def add(self, *parts: str | tuple[str, str], indent: int = 0, hanging: int = 2) -> None:
        """One line of plain parts and (text, style) parts.

        `indent` is the indent of the line, and `hanging` the additional indent of its folded lines.
        """
        text = Text()
        for part in parts:
            shown, style = (part, "") if isinstance(part, str) else part
            text.append(printable(shown), style or None)
        self.lines.append(_Line(text, indent, hanging, True))

    def excerpt(self, text: str, indent: int = 0) -> None:
        """Lines as they are, never folded: a quotation with its carets."""
        for line in text.split("\n"):
            self.lines.append(_Line(Text(printable(line)), indent, 0, False))

    def gap(self) -> None:
        """An empty line, unless the page is empty or ends in one."""
        if self.lines and self.lines[-1].text.plain:
            self.lines.append(_Line(Text(), 0, 0, False))

    def to_text(self, options: ReportOptions) -> str:
        """The whole page. Without a width, lines are never folded."""
        pieces = [piece for line in self.lines for piece in _folded(line, options.width)]
        written = _coloured(pieces) if options.colour else [piece.plain for piece in pieces]
        while written and not written[-1].strip():
            written.pop()
        return "".join(f"{line.rstrip()}\n" for line in written)


def _coloured(pieces: list[Text]) -> list[str]:
    """The lines with the escape sequences of a terminal of sixteen colours."""
    console = Console(
        file=StringIO(),
        width=TERMINAL_COLUMNS,
        force_terminal=True,
        no_color=False,
        color_system="standard",
        legacy_windows=False,
    )
    lines = []
    for piece in pieces:
        with console.capture() as captured:
            console.print(piece, soft_wrap=True, end="")
        lines.append(captured.get())
    return lines


def _folded(line: _Line, width: int | None) -> list[Text]:
    """The pieces of a line. A word longer than the page (a path) stays whole, for a click or a copy."""
    if width is None or not line.is_foldable:
        return [Text(" " * line.indent).append_text(line.text)]
    rooms = (width - line.indent, width - line.indent - line.hanging)
    first, *rest = line.text.divide(_breaks(line.text.plain, *rooms))
    hanging = " " * (line.indent + line.hanging)
    return [Text(" " * line.indent).append_text(first)] + [
        Text(hanging).append_text(piece) for piece in rest
    ]


def _breaks(text: str, first_room: int, room: int) -> list[int]:
    """The break positions: before the words that do not fit into the remaining columns."""
    breaks: list[int] = []
    start, left = 0, first_room
    for word in re.finditer(r"\S+", text):
        if cell_len(text[start : word.end()]) > left and word.start() > start:
            breaks.append(word.start())
            start, left = word.start(), room
    return breaks
