# SPDX-License-Identifier: Apache-2.0
"""Foreign text made safe for a terminal, a log or a page: no character in it acts or hides.

Escaped as Python escapes them: control characters, line ends, bidirectional controls, characters of no
width, spaces other than U+0020, unpaired surrogates. Letters of every script stay as they are. A log of
GitHub Actions also acts on `##[command]` anywhere, and on `::command::` at the beginning of a line.
"""

import json
import re

_ANYWHERE = re.compile(r"#(?=#\[|#vso\[)")
# An IPv6 address may begin with `::` too; no command has such a name.
_AT_START = re.compile(r"^([^\S\n]*):(?=:(?![0-9A-Fa-f:./]*(?:[\s,;)\]]|$)))", re.MULTILINE)
# Invisible letters and marks, which `str.isprintable` accepts.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]|[\ufe00-\ufe0e]")


def printable(text: str) -> str:
    """The text on one line, with acting and invisible characters escaped; the same if there are none."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escaped(c) for c in text)
    if not text.isascii():
        text = _BLANK.sub(lambda found: _escaped(found.group()), text)
    return _ANYWHERE.sub(r"\\x23", text) if "##" in text else text


def printable_line(text: str) -> str:
    """As `printable`, for a whole line of output: it does not begin a command of a log either."""
    return without_commands(printable(text))


def printable_lines(text: str) -> str:
    """Text of several lines, each made printable; the line ends stay."""
    return "\n".join(map(printable_line, text.split("\n")))


def without_commands(text: str) -> str:
    """Printable lines, with escapes where a log would read the start of a line as a command."""
    return _AT_START.sub(r"\1\\x3a", text) if "::" in text else text


def json_text(value: object, indent: int | None = None) -> str:
    """A value as JSON whose text is printable: the same value, with escapes where a log could act."""
    text = json.dumps(value, indent=indent)
    if "##" in text:
        text = _ANYWHERE.sub(r"\\u0023", text)
    return text.replace("\x7f", "\\u007f")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
