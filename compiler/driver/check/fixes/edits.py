# SPDX-License-Identifier: Apache-2.0
"""An edit of a text: some characters are replaced, all others stay. Data and its application."""

import re
from collections.abc import Iterable
from dataclasses import dataclass


class NotEditableError(Exception):
    """The text cannot be edited safely; the message says why, as the end of a sentence."""


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Characters `start` to `end` (exclusive) become `new`."""

    start: int
    end: int
    new: str = ""


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits. An edit inside of a larger one is dropped: that text is gone."""
    parts: list[str] = []
    at = 0
    for edit in sorted(set(edits), key=lambda each: (each.start, -each.end)):
        if edit.start < at:
            if edit.end > at:
                raise NotEditableError("two fixes touch the same text")
            continue
        parts += (text[at : edit.start], edit.new)
        at = edit.end
    return "".join((*parts, text[at:]))


def line_start(text: str, at: int) -> int:
    """The offset of the first character of a line."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """The offset behind a line, its line end included."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def line_ending(text: str) -> str:
    """The line end that the text uses."""
    return "\r\n" if "\r\n" in text else "\n"


_COMMENT_LINE = re.compile(r"[ \t]*(?=#)")


def comment_indent(line: str) -> int | None:
    """The indentation of a line that is only a comment; None for another line."""
    found = _COMMENT_LINE.match(line)
    return None if found is None else found.end()


def above_comments(text: str, begin: int, indent: int) -> int:
    """The beginning of the comment lines directly above a line that have its indentation."""
    while begin > 0:
        before = line_start(text, begin - 1)
        if comment_indent(text[before:begin]) != indent:
            break
        begin = before
    return begin
