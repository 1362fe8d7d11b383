# SPDX-License-Identifier: Apache-2.0
"""The language's door: text in, trees and what is wrong out. Nothing is raised for bad text.

Places are offsets into the text. ANTLR is imported when there is something to parse.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from policyc.grammar import tree
from policyc.grammar.statements import INTENT_STARTS, RULE_STARTS, Statement, statements
from policyc.grammar.tokens import COMMENT, END, NEWLINE, STRAY, Token, tokenise

DEEPEST = 50
"""Parentheses and negations in each other; people write two."""


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """A word that does not fit; `expected` are the kinds of words that would have.

    `after` is the word before it in its statement, None for the first one. `found.kind` is END at the
    end of a statement, STRAY for a character that is in no word. Where parts are nested too deeply,
    nothing is expected and `is_too_deep` holds.
    """

    found: Token
    expected: tuple[str, ...]
    after: Token | None = None
    is_too_deep: bool = False


@dataclass(frozen=True, slots=True)
class Parsed:
    """The statements that are right, in order, and what is wrong with the others."""

    items: tuple[Any, ...]
    problems: tuple[SyntaxProblem, ...]


def parse_rules(text: str) -> Parsed:
    """A rule block: items are tree.Section and tree.Rule."""
    return _parsed("statement", statements(tokenise(text), RULE_STARTS))


def parse_intents(text: str) -> Parsed:
    """Intents: items are tree.Intent."""
    return _parsed("intent", statements(tokenise(text), INTENT_STARTS))


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Parsed:
    """One expression, over any number of lines: items has it, or nothing."""
    words = [token for token in tokenise(text) if token.kind not in (NEWLINE, COMMENT)]
    if not words:
        return Parsed((), (_problem([Token(END, "", len(text))], 0, _starts()),))
    return _parsed("selection", [Statement(words)])


def _parsed(entry: str, found: Iterable[Statement]) -> Parsed:
    from policyc.grammar.shapes import Mismatch, parsed

    items, problems = [], []
    for statement in found:
        tokens = statement.tokens
        shape = tuple([token.kind for token in tokens])
        deep = _too_deep(shape)
        if deep is not None:
            problems.append(SyntaxProblem(tokens[deep], (), is_too_deep=True))
            continue
        result = parsed(entry, shape)
        if isinstance(result, Mismatch):
            problems.append(_problem(tokens, result.index, result.expected))
        else:
            items.append(result(tokens))
    return Parsed(tuple(items), tuple(problems))


def _problem(tokens: list[Token], index: int, expected: tuple[str, ...]) -> SyntaxProblem:
    """A character of no word is what is wrong, wherever the parser noticed."""
    at = next((i for i, t in enumerate(tokens[: index + 1]) if t.kind == STRAY), index)
    found = tokens[at] if at < len(tokens) else Token(END, "", tokens[-1].end)
    return SyntaxProblem(found, expected, tokens[at - 1] if at else None)


def _starts() -> tuple[str, ...]:
    """What an expression may begin with."""
    from policyc.grammar.shapes import Mismatch, parsed

    result = parsed("selection", ())
    return result.expected if isinstance(result, Mismatch) else ()


def _too_deep(shape: tuple[str, ...]) -> int | None:
    """The word at which parts are nested deeper than DEEPEST."""
    if "(" not in shape and "!" not in shape:
        return None
    negations = [0]  # in front of the part at hand, for each parenthesis that is open
    for at, kind in enumerate(shape):
        if kind == "!":
            negations[-1] += 1
        elif kind == "(":
            negations.append(0)
        elif kind == ")" and len(negations) > 1:
            negations.pop()
        elif kind not in ("has", "all"):
            negations[-1] = 0
        if kind in ("!", "(") and len(negations) + sum(negations) > DEEPEST:
            return at
    return None


__all__ = ["Parsed", "SyntaxProblem", "parse_expression", "parse_intents", "parse_rules", "tree"]
