# SPDX-License-Identifier: Apache-2.0
"""Words -> statements. A statement ends with its line, unless it cannot be complete there.

It goes on inside brackets, after a comma or an operator, and where the next line begins with one or
with a word that begins no statement (`from`, `as`). A word that begins a statement always does, so that
a bracket that was left open spoils one statement and not the rest of the block.
"""

from dataclasses import dataclass

from policyc.grammar.tokens import ACTIONS, COMMENT, NEWLINE, PROMISES, SECTIONS, Token

RULE_STARTS = frozenset((*ACTIONS, *SECTIONS))
INTENT_STARTS = frozenset(PROMISES)
_GOES_ON_AFTER = frozenset(
    (",", "&&", "||", "or", "!", "==", "!=", "in", "not", "from", "to", "except", "as", "because")
)
GOES_ON_WITH = frozenset(
    (",", "&&", "||", "or", "from", "to", "except", "as", "because", "including", "limit", "burst")
)
"""Words and signs that begin no statement: a line that begins with one goes on."""
_OPENING, _CLOSING = frozenset("({["), frozenset(")}]")


@dataclass(slots=True, eq=False)
class Statement:
    """The words of one statement, without comments and line ends; never empty."""

    tokens: list[Token]


def statements(tokens: list[Token], starts: frozenset[str]) -> list[Statement]:
    """The statements of a block; `starts` are the words that begin one there."""
    found: list[Statement] = []
    current: list[Token] = []
    depth = 0
    is_new_line = False
    for token in tokens:
        kind = token.kind
        if kind == NEWLINE:
            is_new_line = True
            continue
        if kind == COMMENT:
            continue
        if is_new_line:
            is_new_line = False
            if current and ends_between(current[-1].kind, kind, depth, starts):
                found.append(Statement(current))
                current, depth = [], 0
        current.append(token)
        if kind in _OPENING:
            depth += 1
        elif kind in _CLOSING and depth:
            depth -= 1
    if current:
        found.append(Statement(current))
    return found


def ends_between(last: str, first: str, depth: int, starts: frozenset[str]) -> bool:
    """Whether a statement ends between a line's last word and the next line's first."""
    if first in starts:
        return True
    if first in SECTIONS:  # in an intent they are its scope
        return False
    return depth == 0 and last not in _GOES_ON_AFTER and first not in GOES_ON_WITH
