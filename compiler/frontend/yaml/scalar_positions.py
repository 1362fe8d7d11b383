# SPDX-License-Identifier: Apache-2.0
"""Plain and quoted YAML scalars, read character by character: the source position of each character."""

import re
from collections.abc import Iterator
from itertools import islice

Place = tuple[int, int]
"""The source position of a character: offsets of its beginning and its end, exclusive.

Both are the end of the line if the character comes from a folded line end.
"""

_FOLD = r"(?P<fold>[ \t]*(?:\r\n|\r|\n)[ \t\r\n]*)"
_BLANKS = r"(?P<blanks>[ \t]+)"
_PLAIN = re.compile(rf"{_FOLD}|{_BLANKS}|(?P<same>.)", re.DOTALL)
_SINGLE = re.compile(rf"{_FOLD}|{_BLANKS}|(?P<quote>'')|(?P<same>.)", re.DOTALL)
_DOUBLE = re.compile(
    rf"{_FOLD}|{_BLANKS}|\\(?P<join>(?:\r\n|\r|\n)[ \t\r\n]*)"
    r"|\\(?:x(?P<x>[\da-fA-F]{2})|u(?P<u>[\da-fA-F]{4})|U(?P<U>[\da-fA-F]{8}))"
    r"|\\(?P<letter>.)|(?P<same>.)",
    re.DOTALL,
)
_LETTERS = dict(
    zip('0abt\tnvfre "/\\N_LP', '\0\a\b\t\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029', strict=True)
)
_BREAK = re.compile(r"\r\n|\r|\n")


def flow_places(raw: str, head: int, text: str) -> list[Place]:
    """The place of every character of `text`, which `raw` contains from `head` on.

    Empty if the two do not agree: then no place is known.
    """
    style = {'"': _DOUBLE, "'": _SINGLE}.get(raw[head : head + 1], _PLAIN)
    begin = head if style is _PLAIN else head + 1
    found = list(islice(_characters(style, raw, begin), len(text)))
    if "".join([character for character, _ in found]) != text:
        return []
    return [place for _, place in found]


def _characters(style: re.Pattern[str], raw: str, begin: int) -> Iterator[tuple[str, Place]]:
    for token in style.finditer(raw, begin):
        start, end = token.span()
        kind = token.lastgroup
        if kind == "blanks":
            for at in range(start, end):
                yield raw[at], (at, at + 1)
        else:
            place = (start, start) if kind == "fold" else (start, end)
            for character in _said(kind, token):
                yield character, place


def _said(kind: str | None, token: re.Match[str]) -> str:
    """The characters of a token; empty if it is not YAML."""
    if kind is None:
        return ""
    written = token[kind]
    match kind:
        case "fold":
            return "\n" * (len(_BREAK.findall(written)) - 1) or " "
        case "join":
            return "\n" * (len(_BREAK.findall(written)) - 1)
        case "quote":
            return "'"
        case "letter":
            return _LETTERS.get(written, "")
        case "x" | "u" | "U":
            number = int(written, 16)
            return chr(number) if number <= 0x10FFFF else ""
        case _:
            return written
