# SPDX-License-Identifier: Apache-2.0
"""The shape of a statement (the kinds of its words) -> its builder, by ANTLR's parser.

Shapes are few where rules are many, so each is parsed once. SLL prediction first, LL where that fails:
the grammar never needs the second, but for an error the answer must be the full one's.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from antlr4 import CommonTokenStream
from antlr4.atn.PredictionMode import PredictionMode
from antlr4.error.Errors import NoViableAltException, RecognitionException
from antlr4.error.ErrorStrategy import DefaultErrorStrategy
from antlr4.ListTokenSource import ListTokenSource
from antlr4.Token import CommonToken
from antlr4.Token import Token as AntlrToken

from policyc.grammar.builders import Builder, builder_of
from policyc.grammar.generated.PolicycLexer import PolicycLexer
from policyc.grammar.generated.PolicycParser import PolicycParser
from policyc.grammar.tokens import END

Shape = tuple[str, ...]
_CACHED = 4096
_LONGEST_CACHED = 256
"""Words; a longer statement is likely the only one of its shape."""

TYPES: dict[str, int] = {
    **{name: at for at, name in enumerate(PolicycLexer.symbolicNames) if at},
    **{text[1:-1]: at for at, text in enumerate(PolicycLexer.literalNames) if at},
}
"""Kind of a word -> ANTLR's token type."""
KINDS = {at: kind for kind, at in TYPES.items()} | {AntlrToken.EOF: END}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """No sentence of the grammar: the word at `index` is none of the kinds `expected`, sorted."""

    index: int
    expected: tuple[str, ...]


def parsed(entry: str, shape: Shape) -> Builder | Mismatch:
    """How to build what has this shape; `entry` is the grammar's rule to begin with."""
    return _cached(entry, shape) if len(shape) <= _LONGEST_CACHED else _parsed(entry, shape)


def _parsed(entry: str, shape: Shape) -> Builder | Mismatch:
    found = _attempt(entry, shape, PredictionMode.SLL)
    if isinstance(found, Mismatch):
        found = _attempt(entry, shape, PredictionMode.LL)
    return found if isinstance(found, Mismatch) else builder_of(found)


_cached = lru_cache(maxsize=_CACHED)(_parsed)


def _attempt(entry: str, shape: Shape, mode: Any) -> Any:
    """The context of the entry, or where it failed."""
    tokens = [_token(TYPES[kind], at) for at, kind in enumerate(shape)]
    tokens.append(_token(AntlrToken.EOF, len(shape)))
    parser: Any = PolicycParser(CommonTokenStream(ListTokenSource(tokens)))
    parser.removeErrorListeners()
    parser._interp.predictionMode = mode
    parser._errHandler = _FirstError()
    try:
        return getattr(parser, entry)()
    except _StoppedError as stopped:
        return stopped.mismatch


def _token(kind: int, at: int) -> Any:
    token = CommonToken(type=kind)
    token.tokenIndex = at
    token.text = ""
    return token


class _StoppedError(Exception):
    def __init__(self, mismatch: Mismatch) -> None:
        super().__init__()
        self.mismatch = mismatch


class _FirstError(DefaultErrorStrategy):  # type: ignore[misc]  # the runtime has no types
    """Stops at the first error, knowing everything that could have stood there.

    A word that fits nowhere is found wrong only when all optional parts before the end were passed
    over, so what each of them expected is gathered on the way.
    """

    def __init__(self) -> None:
        super().__init__()
        self._expected: dict[int, set[int]] = {}

    def sync(self, recognizer: Any) -> None:
        """Note what may stand here."""
        self._note(recognizer)

    def recover(self, recognizer: Any, e: RecognitionException) -> NoReturn:
        """Stop where prediction failed, which may be a word further on."""
        self._note(recognizer)
        current = recognizer.getCurrentToken().tokenIndex
        index = e.offendingToken.tokenIndex if isinstance(e, NoViableAltException) else current
        self._stop(index)

    def recoverInline(self, recognizer: Any) -> NoReturn:  # noqa: N802
        """Stop where a word does not match."""
        self._note(recognizer)
        self._stop(recognizer.getCurrentToken().tokenIndex)

    def reportError(self, recognizer: Any, e: Any) -> None:  # noqa: N802
        """Say nothing: the caller has the mismatch."""

    def _note(self, recognizer: Any) -> None:
        at = recognizer.getCurrentToken().tokenIndex
        known = self._expected.setdefault(at, set())
        for interval in recognizer.getExpectedTokens().intervals or ():
            known.update(interval)

    def _stop(self, index: int) -> NoReturn:
        types = self._expected.get(index, set())
        raise _StoppedError(Mismatch(index, tuple(sorted(KINDS[t] for t in types if t in KINDS))))
