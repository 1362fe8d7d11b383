# SPDX-License-Identifier: Apache-2.0
"""A JSON value that knows its position, so that every error names the place.

Nothing is guessed: a wrong type, an unknown field or a duplicate field is an `InputError`.
"""

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from policyc.runtime.errors import InputError

_TYPE_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class JsonValue:
    """One value, its file and its path in that file (`$.endpoints[3].mac`).

    `lines` has LINE:COLUMN for each path, if the file's reader knows it.
    """

    raw: Any
    file: Path
    path: str = "$"
    lines: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def where(self) -> str:
        """The position, as messages name it."""
        if self.path in self.lines:
            return f"{self.file}:{self.lines[self.path]}: {self.path}"
        return f"{self.file}: {self.path}"

    def fail(self, message: str, hint: str = "") -> NoReturn:
        """Reject the input because of this value."""
        raise InputError(f"{self.where}: {message}", hint)

    def but(self, raw: object) -> "JsonValue":
        """Another value at this position."""
        return replace(self, raw=raw)

    def _of_type(self, wanted: type) -> Any:
        if not isinstance(self.raw, wanted):
            self.fail(f"expected {_TYPE_NAMES[wanted]}, found {describe(self.raw)}")
        return self.raw

    def text(self, may_be_empty: bool = False) -> str:
        """The string; empty ones are rejected unless `may_be_empty`."""
        if not self._of_type(str) and not may_be_empty:
            self.fail("expected a string that is not empty")
        if any("\ud800" <= each <= "\udfff" for each in self.raw):
            self.fail("expected text, found an unpaired surrogate")
        return str(self.raw)

    def flag(self) -> bool:
        """The boolean."""
        return bool(self._of_type(bool))

    def number(self, lo: int, hi: int) -> int:
        """The integer, in lo..hi, both included."""
        if isinstance(self.raw, bool) or not isinstance(self.raw, int):
            self.fail(f"expected a whole number, found {describe(self.raw)}")
        if not lo <= self.raw <= hi:
            self.fail(f"expected a number from {lo} to {hi}, found {self.raw}")
        return int(self.raw)

    def items(self) -> Iterator["JsonValue"]:
        """The elements of the array, each with its index in the path."""
        for i, item in enumerate(self._of_type(list)):
            yield JsonValue(item, self.file, f"{self.path}[{i}]", self.lines)

    def members(self) -> dict[str, "JsonValue"]:
        """The members of an object with keys that users choose (labels)."""
        raw: dict[str, Any] = self._of_type(dict)
        return {
            key: JsonValue(value, self.file, f"{self.path}.{key}", self.lines)
            for key, value in raw.items()
        }

    def object(self) -> dict[str, Any]:
        """The raw object, for a reader that knows its fields."""
        return dict(self._of_type(dict))

    def strings(self) -> dict[str, str]:
        """The object as a map of text to text; values may be empty, as in labels."""
        return {key: str(value._of_type(str)) for key, value in self.members().items()}

    def fields(
        self, required: tuple[str, ...], optional: tuple[str, ...]
    ) -> dict[str, "JsonValue"]:
        """The members of an object with fields that we define; rejects unknown and missing fields."""
        members = self.members()
        known = [*required, *optional]
        for name, value in members.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
                value.fail(f"unknown field `{name}`", hint)
        for name in required:
            if name not in members:
                self.fail(f"the field `{name}` is missing")
        return members


def describe(raw: object) -> str:
    """The value as messages show it: short, and with its type."""
    if raw is None:
        return "null"
    if isinstance(raw, dict | list):
        return _TYPE_NAMES[type(raw)]
    return json.dumps(raw)


def read_text(path: Path) -> str:
    """The text of a file; `InputError` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text") from error


def read_json(path: Path) -> JsonValue:
    """Parse a file; `InputError` with line and column if it is no JSON."""
    return parsed(read_text(path), path)


def parsed(text: str, path: Path) -> JsonValue:
    """Parse the text of a file, as `read_json` does."""
    try:
        return JsonValue(json.loads(text, object_pairs_hook=without_duplicates), path)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except DuplicateKeyError as error:
        raise InputError(f"{path}: the field `{error}` is given twice in one object") from error
    except RecursionError as error:
        raise InputError(f"{path}: is nested too deeply") from error
    except ValueError as error:  # a number with thousands of digits
        raise InputError(f"{path}: not JSON: {error}") from error


class DuplicateKeyError(Exception):
    """A duplicate key: JSON would silently keep the last value."""


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's members, for the decoder."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise DuplicateKeyError(key)
        found[key] = value
    return found


def one_of(value: JsonValue | None, known: tuple[str, ...], default: str) -> str:
    """One of the strings; `default` if it is absent or null. `InputError` for any other."""
    if value is None or value.raw is None:
        return default
    if value.raw not in known:
        value.fail(f"expected one of {', '.join(known)}, found {describe(value.raw)}")
    return str(value.raw)
