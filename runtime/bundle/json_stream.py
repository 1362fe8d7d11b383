# SPDX-License-Identifier: Apache-2.0
"""Consecutive JSON values, as a watch writes them, from text that arrives in pieces.

The work is linear in the text. An incomplete value is parsed again only if its brackets close, or if the
text has doubled in length: so malformed JSON is found before its end.
"""

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path

from policyc.runtime.bundle.json_value import (
    DuplicateKeyError,
    JsonValue,
    without_duplicates,
)
from policyc.runtime.errors import InputError

_LONGEST_WORD = 8
"""More than the length of `false`, or of a truncated escape."""
_BLANK = re.compile(r"\s*")
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]"]', re.DOTALL)
_IN_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


class JsonStream:
    """The values of one file; positions in messages refer to the whole text."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._line, self._column = 1, 1
        self._kept: list[str] = []  # from the start of an incomplete value
        self._size = self._tried = 0  # characters kept, and how many of them were parsed
        self._extent = _Extent()
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._decoder = json.JSONDecoder(object_pairs_hook=without_duplicates)

    def values(self, piece: bytes) -> Iterator[JsonValue]:
        """The values that this piece completes; `InputError` if it is no JSON."""
        try:
            text = self._utf8.decode(piece)
        except UnicodeDecodeError as error:
            raise self._malformed("it is not UTF-8 text") from error
        if self._kept:
            self._keep(text)
            if not self._is_due(text):
                return
            text = self._rest()
        yield from self._parsed(text)

    def end(self) -> None:
        """End the text; `InputError` in the middle of a value."""
        rest = self._rest()
        if rest.strip():
            raise self._malformed("it ends in the middle of a value", rest, 0, len(rest))

    def _keep(self, text: str) -> None:
        self._kept.append(text)
        self._size += len(text)

    def _rest(self) -> str:
        return "".join(self._kept)

    def _is_due(self, added: str) -> bool:
        """Whether the kept text should be parsed.

        Values other than objects, arrays and strings are short.
        """
        is_complete = self._extent.ends_in(added)
        return is_complete or self._size >= 2 * self._tried or self._kept[0][0] not in '{["'

    def _parsed(self, text: str) -> Iterator[JsonValue]:
        self._kept, self._size = [], 0
        at = 0
        while True:
            begin = self._passed(text, at, _end(_BLANK, text, at))
            if begin == len(text):
                return
            try:
                raw, at = self._decoder.raw_decode(text, begin)
            except json.JSONDecodeError as error:
                if not _may_go_on(error, text):
                    raise self._malformed(error.msg, text, begin, error.pos) from error
                self._wait_for_more(text[begin:])
                return
            except DuplicateKeyError as error:
                raise self._malformed(
                    f"the field `{error}` is given twice in one object"
                ) from error
            except RecursionError as error:
                raise self._malformed("it is nested too deeply") from error
            except ValueError as error:
                raise self._malformed(str(error)) from error
            yield JsonValue(raw, self.file, "$", {"$": f"{self._line}:{self._column}"})
            self._passed(text, begin, at)

    def _wait_for_more(self, rest: str) -> None:
        self._keep(rest)
        self._tried = len(rest)
        self._extent = _Extent()
        self._extent.ends_in(rest)

    def _passed(self, text: str, begin: int, end: int) -> int:
        """Advance lines and columns to `end`, and return `end`."""
        newline = text.rfind("\n", begin, end)
        self._line += text.count("\n", begin, end)
        self._column = end - newline if newline >= 0 else self._column + end - begin
        return end

    def _malformed(self, message: str, text: str = "", begin: int = 0, at: int = 0) -> InputError:
        self._passed(text, begin, at)
        return InputError(f"{self.file}:{self._line}:{self._column}: not JSON: {message}")


class _Extent:
    """Finds the end of a value by its brackets and strings alone. Reads each character once."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = False

    def ends_in(self, text: str) -> bool:
        """Whether the value ends in this text, which continues the text of earlier calls."""
        at = 0
        while at < len(text):
            if self._in_string:
                at = self._after_string(text, at)
                ended = not self._in_string
            else:
                found = _TOKEN.search(text, at)
                if found is None:
                    return False
                at = found.end()
                ended = self._token(found.group())
            if ended and self._depth <= 0:
                return True
        return False

    def _token(self, token: str) -> bool:
        """Whether the value ends with this token."""
        self._in_string = token == '"'
        if token in "{[":
            self._depth += 1
        elif token in "}]":
            self._depth -= 1
        return not self._in_string and token not in "{["

    def _after_string(self, text: str, at: int) -> int:
        at = _end(_IN_STRING, text, at + self._escaped)
        self._escaped = text[at : at + 1] == "\\"  # the text ends after it
        self._in_string = text[at : at + 1] != '"'
        return at + 1


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _may_go_on(error: json.JSONDecodeError, text: str) -> bool:
    """Whether the only error is that the text ends early, as far as can be told."""
    return error.msg.startswith("Unterminated") or len(text) - error.pos < _LONGEST_WORD
