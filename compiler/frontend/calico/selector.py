# SPDX-License-Identifier: Apache-2.0
"""Calico's selector language -> conditions on labels (semantics D43).

    or    = and { "||" and }
    and   = term { "&&" term }
    term  = { "!" } ( test | "has(" label ")" | "all()" | "global()" | "(" or ")" )
    test  = label ( "==" | "!=" | "contains" | "starts with" | "ends with" ) text
          | label ( "in" | "not in" ) "{" [ text { "," text } [","] ] "}"

Every test is of Attribute.LABEL; `labels.py` says what a label is in each place.
"""

from dataclasses import dataclass

from policyc.compiler.frontend.calico.tokens import (
    JOINT,
    OPERATOR,
    SIGNS_OF_WORDS,
    TERM,
    SelectorError,
    Token,
    Word,
    shown,
    tokenize,
)
from policyc.ir.selectors import (
    ALWAYS,
    NEVER,
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    Not,
    OneOf,
    Operator,
    Requirement,
)

MAX_NESTING = 64
"""The nesting limit of parentheses; each level costs a stack frame, and real selectors stay below."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A selector that parses. `global_at` is where a `global()` begins in it, None without one."""

    condition: Condition
    global_at: int | None = None
    is_only_global: bool = False


class NestingError(Exception):
    """Too many parentheses; `at` is the offset of the first excess one."""

    def __init__(self, at: int) -> None:
        super().__init__(f"nested more than {MAX_NESTING} deep")
        self.at = at


def parse_expression(text: str) -> Expression:
    """The meaning of a selector; an empty one selects everything.

    Raises SelectorError or NestingError at the first mistake.
    """
    tokens = tokenize(text)
    if tokens[0].word is Word.END:
        return Expression(ALWAYS)
    condition = _Parser(text, tokens).whole()
    places = [token.start for token in tokens if token.word is Word.GLOBAL]
    is_only = len(tokens) == 2 and tokens[0].word is Word.GLOBAL
    return Expression(condition, places[0] if places else None, is_only)


def negated(condition: Condition) -> Condition:
    """The negation; tests with an opposite operator stay tests, which are cheaper."""
    match condition:
        case AttributeTest(attribute, Requirement(key, operator, values)) if operator in _OPPOSITES:
            return AttributeTest(attribute, Requirement(key, _OPPOSITES[operator], values))
        case Not(part):
            return part
        case _:
            return Not(condition)


_OPPOSITES = {
    Operator.IN: Operator.NOT_IN,
    Operator.NOT_IN: Operator.IN,
    Operator.EXISTS: Operator.DOES_NOT_EXIST,
    Operator.DOES_NOT_EXIST: Operator.EXISTS,
}
_WITH_TEXT = {
    Word.EQ: Operator.IN,
    Word.NE: Operator.NOT_IN,
    Word.CONTAINS: Operator.CONTAINS,
    Word.STARTS_WITH: Operator.STARTS_WITH,
    Word.ENDS_WITH: Operator.ENDS_WITH,
}


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def whole(self) -> Condition:
        """The expression, with no text after it."""
        found = self._either()
        if self._now.word is not Word.END:
            raise self._wrong(JOINT, self._joining_hint())
        return found

    def _either(self) -> Condition:
        parts = [self._both()]
        while self._took(Word.OR):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else OneOf(tuple(parts))

    def _both(self) -> Condition:
        parts = [self._term()]
        while self._took(Word.AND):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _term(self) -> Condition:
        is_negated = False
        while self._took(Word.NOT):
            is_negated = not is_negated
        found = self._positive()
        return negated(found) if is_negated else found

    def _positive(self) -> Condition:
        token = self._now
        match token.word:
            case Word.HAS:
                self._at += 1
                return _test(Requirement(token.text, Operator.EXISTS))
            case Word.ALL | Word.GLOBAL:  # where global() is allowed, it stands alone
                self._at += 1
                return ALWAYS
            case Word.OPEN:
                return self._parenthesised()
            case Word.LABEL:
                return self._comparison()
        hint = "write label names without quotes" if token.word is Word.TEXT else ""
        raise self._wrong(TERM, hint)

    def _parenthesised(self) -> Condition:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise NestingError(self._now.start)
        self._at += 1
        found = self._either()
        if not self._took(Word.CLOSE):
            raise self._wrong("`)`, `&&` or `||`", self._joining_hint())
        self._depth -= 1
        return found

    def _comparison(self) -> Condition:
        label = self._now.text
        self._at += 1
        operator = self._now.word
        if operator in (Word.IN, Word.NOT_IN):
            self._at += 1
            values = tuple(sorted(set(self._set())))
            if not values:
                return NEVER if operator is Word.IN else Not(NEVER)  # ALWAYS is all()
            kind = Operator.IN if operator is Word.IN else Operator.NOT_IN
            return _test(Requirement(label, kind, values))
        if operator not in _WITH_TEXT:
            raise self._wrong(OPERATOR, self._label_hint(label))
        self._at += 1
        return _test(Requirement(label, _WITH_TEXT[operator], (self._string(),)))

    def _set(self) -> list[str]:
        if not self._took(Word.SET_OPEN):
            raise self._wrong("a set of quoted texts in `{` and `}`")
        found: list[str] = []
        while self._now.word is Word.TEXT:
            found.append(self._string())
            if not self._took(Word.COMMA):
                break
        if not self._took(Word.SET_CLOSE):
            expected = "`,` or `}`" if found else "a quoted text or `}`"
            raise self._wrong(expected, self._quote_hint())
        return found

    def _string(self) -> str:
        if self._now.word is not Word.TEXT:
            raise self._wrong("a quoted text", self._quote_hint())
        text = self._now.text
        self._at += 1
        return text

    def _took(self, word: Word) -> bool:
        if self._now.word is not word:
            return False
        self._at += 1
        return True

    def _wrong(self, expected: str, hint: str = "") -> SelectorError:
        token = self._now
        found = shown(self._text, token.start, token.end)
        return SelectorError(token.start, token.end, expected, found, hint)

    def _quote_hint(self) -> str:
        token = self._now
        return f'quote it: "{token.text}"' if token.word is Word.LABEL else ""

    def _joining_hint(self) -> str:
        sign = SIGNS_OF_WORDS.get(self._now.text.lower())
        return f"write `{sign}`" if self._now.word is Word.LABEL and sign is not None else ""

    def _label_hint(self, label: str) -> str:
        if label.lower() in SIGNS_OF_WORDS:
            return f"write `{SIGNS_OF_WORDS[label.lower()]}`"
        if self._now.word is Word.OPEN and label in ("has", "all", "global"):
            return f"write `{label}(` without a space"
        return f"whether the label is there at all: `has({label})`"


def _test(requirement: Requirement) -> Condition:
    return AttributeTest(Attribute.LABEL, requirement)
