# SPDX-License-Identifier: Apache-2.0
"""Calico's selector language, cut into tokens (semantics D43).

Only spaces and tabs separate tokens: a line break is a mistake. Words are operators only after a label.
`has(`, `all(` and `global(` are one token with their closing parenthesis.
"""

import re
from dataclasses import dataclass
from enum import Enum

from policyc.compiler.frontend.spelling import nearest


class Word(Enum):
    """The kinds of tokens; the value is their name in messages."""

    LABEL = "a label"
    TEXT = "a quoted text"
    HAS = "`has(...)`"
    ALL = "`all()`"
    GLOBAL = "`global()`"
    EQ = "`==`"
    NE = "`!=`"
    IN = "`in`"
    NOT_IN = "`not in`"
    CONTAINS = "`contains`"
    STARTS_WITH = "`starts with`"
    ENDS_WITH = "`ends with`"
    NOT = "`!`"
    AND = "`&&`"
    OR = "`||`"
    OPEN = "`(`"
    CLOSE = "`)`"
    SET_OPEN = "`{`"
    SET_CLOSE = "`}`"
    COMMA = "`,`"
    END = "the end of the selector"


@dataclass(frozen=True, slots=True)
class Token:
    """A token at start..end (exclusive) of the expression; `text` is a label or a quoted text."""

    word: Word
    start: int
    end: int
    text: str = ""


class SelectorError(Exception):
    """The expectation at start..end of the expression, the text found there, and a hint."""

    def __init__(self, start: int, end: int, expected: str, found: str, hint: str = "") -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.start, self.end = start, end
        self.expected, self.found, self.hint = expected, found, hint


OPERATOR = "an operator: `==`, `!=`, `in`, `not in`, `contains`, `starts with` or `ends with`"
TERM = "a label, `has(...)`, `all()`, `!` or `(`"
JOINT = "`&&`, `||` or the end of the selector"
SIGNS_OF_WORDS = {"and": "&&", "or": "||", "not": "!"}
"""Operators of other languages."""
_SPACE = re.compile(r"[ \t]*")
_LABEL = re.compile(r"[A-Za-z0-9_./-]+")
_AFTER_LABEL = (
    (re.compile(r"contains"), Word.CONTAINS),
    (re.compile(r"starts[ \t]*with"), Word.STARTS_WITH),
    (re.compile(r"ends[ \t]*with"), Word.ENDS_WITH),
    (re.compile(r"not[ \t]*in"), Word.NOT_IN),
    (re.compile(r"in"), Word.IN),
)
_OPERATOR_NAMES = ("contains", "starts with", "ends with", "not in", "in")
_SIGNS = (
    ("==", Word.EQ),
    ("!=", Word.NE),
    ("&&", Word.AND),
    ("||", Word.OR),
    ("!", Word.NOT),
    ("(", Word.OPEN),
    (")", Word.CLOSE),
    ("{", Word.SET_OPEN),
    ("}", Word.SET_CLOSE),
    (",", Word.COMMA),
)
_HALF_SIGNS = {"=": "==", "&": "&&", "|": "||"}
_CALLS = (("has(", Word.HAS), ("all(", Word.ALL), ("global(", Word.GLOBAL))


def tokenize(text: str) -> list[Token]:
    """The tokens of an expression, END last. Raises SelectorError at the first invalid one."""
    found: list[Token] = []
    at = _skip(text, 0)
    while at < len(text):
        token = _next(text, at, found[-1] if found else None)
        found.append(token)
        at = _skip(text, token.end)
    return [*found, Token(Word.END, len(text), len(text))]


def shown(text: str, start: int, end: int) -> str:
    """The text at a place, for messages."""
    part = text[start:end]
    if not part:
        return Word.END.value
    return "a line break" if part[0] in "\r\n" else f"`{part[:40]}`"


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _next(text: str, at: int, before: Token | None) -> Token:
    first = text[at]
    if first in "\"'":
        return _quoted(text, at)
    for sign, word in _SIGNS:
        if text.startswith(sign, at):
            return Token(word, at, at + len(sign))
    if first in _HALF_SIGNS:
        whole = _HALF_SIGNS[first]
        raise SelectorError(at, at + 1, f"`{whole}`", f"`{first}`", f"write `{whole}`")
    if before is not None and before.word is Word.LABEL:
        return _operator(text, at, before)
    return _label_or_call(text, at)


def _quoted(text: str, at: int) -> Token:
    quote = text[at]
    end = text.find(quote, at + 1)
    if end < 0:
        hint = f"the text that begins with {quote} has no {quote} at its end"
        raise SelectorError(at, len(text), f"a closing {quote}", Word.END.value, hint)
    return Token(Word.TEXT, at, end + 1, text[at + 1 : end])


def _operator(text: str, at: int, label: Token) -> Token:
    for form, word in _AFTER_LABEL:
        match = form.match(text, at)
        if match is not None:
            return Token(word, at, match.end())
    sign = SIGNS_OF_WORDS.get(label.text.lower())
    if sign is not None:  # `a == "b" and c == "d"`
        raise SelectorError(label.start, label.end, JOINT, f"`{label.text}`", f"write `{sign}`")
    match = _LABEL.match(text, at)
    end = match.end() if match is not None else at + 1
    near = None if match is None else nearest(text[at:end], _OPERATOR_NAMES, 0.6)
    hint = f"did you mean `{near}`?" if near is not None else ""
    raise SelectorError(at, end, OPERATOR, shown(text, at, end), hint)


def _label_or_call(text: str, at: int) -> Token:
    for name, word in _CALLS:
        if text.startswith(name, at):
            return _call(text, at, name, word)
    match = _LABEL.match(text, at)
    if match is None:
        hint = ""
        if text[at] in "\r\n":
            hint = (
                "Calico allows no line breaks in a selector; `>-` folds the lines of a YAML block"
            )
        raise SelectorError(at, at + 1, TERM, shown(text, at, at + 1), hint)
    return Token(Word.LABEL, at, match.end(), match[0])


def _call(text: str, at: int, name: str, word: Word) -> Token:
    """`has(label)`, `all()` or `global()`."""
    inside = _skip(text, at + len(name))
    label = ""
    if word is Word.HAS:
        match = _LABEL.match(text, inside)
        if match is None:
            hint = "write the label without quotes" if text[inside : inside + 1] in "\"'" else ""
            end = min(inside + 1, len(text))
            raise SelectorError(inside, end, "a label", shown(text, inside, end), hint)
        label, inside = match[0], _skip(text, match.end())
    if not text.startswith(")", inside):
        end = min(inside + 1, len(text))
        found = shown(text, inside, end)
        raise SelectorError(inside, end, f"`)` after `{name}{label}`", found)
    return Token(word, at, inside + 1, label)
