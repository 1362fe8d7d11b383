# SPDX-License-Identifier: Apache-2.0
"""The language's one layout: blanks and indentation are ours, words, comments and lines the author's.

One blank between words, none inside brackets; rules two columns below their section, what goes on
from the line before two further; at most one empty line in a row. Takes text without mistakes.
Laying out twice changes nothing, and no word ever changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from policyc.grammar.statements import INTENT_STARTS, RULE_STARTS, ends_between
from policyc.grammar.tokens import COMMENT, NEWLINE, SECTIONS, Token, tokenise

_RULE, _GOES_ON = 2, 2
_NONE_BEFORE = frozenset(",:)]}[")
_NONE_AFTER = frozenset("([{!")
_DEPTH = {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}


@dataclass(slots=True)
class _Line:
    """A line's words and its comment; `written` is how far it was indented, `indent` where it goes."""

    words: list[Token] = field(default_factory=list)
    comment: str = ""
    indent: int = 0
    written: int = 0

    @property
    def text(self) -> str:
        between = "  " if self.words and self.comment else ""
        line = f"{_joined(self.words)}{between}{self.comment}"
        return " " * self.indent + line if line else ""


def lay_out_rules(text: str) -> str:
    """A rule block, with a line end behind its last line."""
    return _laid_out(text, RULE_STARTS)


def lay_out_intents(text: str) -> str:
    """The text of an intents file or block."""
    return _laid_out(text, INTENT_STARTS)


def lay_out_expression(text: str) -> str:
    """An expression that stands on one line, without comments."""
    return _joined(tokenise(text))


def _laid_out(text: str, starts: frozenset[str]) -> str:
    lines = _lines(tokenise(text))
    _indent(lines, starts)
    return "".join(f"{line}\n" for line in _squeezed([line.text for line in lines]))


def _lines(tokens: list[Token]) -> list[_Line]:
    found = [_Line()]
    start = 0
    for token in tokens:
        line = found[-1]
        if token.kind != NEWLINE and not line.words:
            line.written = token.start - start
        if token.kind == NEWLINE:
            start = token.end
            found.append(_Line())
        elif token.kind == COMMENT:
            line.comment = token.text.rstrip()
        else:
            line.words.append(token)
    return found


def _indent(lines: list[_Line], starts: frozenset[str]) -> None:
    """Give each line its place; a comment goes with what is right below it.

    But a comment above a section's header that stands deeper is of the section that ends there.
    """
    last, depth, base, at = "", 0, 0, 0
    waiting: list[_Line] = []
    for line in lines:
        waiting.append(line)
        if not line.words and not line.comment:  # what stands above an empty line ends there
            for one in waiting:
                one.indent = base
            waiting = []
        if not line.words:
            continue
        first = line.words[0].kind
        if not last or ends_between(last, first, depth, starts):
            if first in SECTIONS and starts is not INTENT_STARTS:
                waiting = _without_end_of_section(waiting, base)
            base = 0 if starts is INTENT_STARTS or first in SECTIONS else _RULE
            at, depth = base, 0
        else:
            at = base + _GOES_ON
        for word in line.words:
            depth = max(0, depth + _DEPTH.get(word.kind, 0))
        last = line.words[-1].kind
        for one in waiting:
            one.indent = at
        waiting = []
    for one in waiting:
        one.indent = base


def _without_end_of_section(waiting: list[_Line], base: int) -> list[_Line]:
    """The lines down to a header, the last, but for the comments that end the section before."""
    header = waiting[-1].written
    ending = list(takewhile(lambda line: line.written > header, waiting))
    for line in ending:
        line.indent = base
    return waiting[len(ending) :]


def _joined(words: list[Token]) -> str:
    """The words with one blank between them, where there is one."""
    found: list[str] = []
    last = ""
    for word in words:
        kind = word.kind
        is_call = kind == "(" and last == "has"
        if last and kind not in _NONE_BEFORE and last not in _NONE_AFTER and not is_call:
            found.append(" ")
        found.append(word.text)
        last = kind
    return "".join(found)


def _squeezed(lines: list[str]) -> Iterator[str]:
    """Without empty lines at the ends, and with one where there were several."""
    is_empty_before = False
    has_begun = False
    for line in lines:
        if not line:
            is_empty_before = has_begun
            continue
        if is_empty_before:
            yield ""
        yield line
        has_begun, is_empty_before = True, False
