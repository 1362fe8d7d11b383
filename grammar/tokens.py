# SPDX-License-Identifier: Apache-2.0
"""Text -> words, with the kinds of PolicycLexer.g4; a property test holds the two to each other.

One regular expression in place of the generated lexer, which takes 1.5 us a character in Python: nine
seconds for 100,000 rules (docs/decisions/0011-antlr-once-a-shape.md).
"""

import re
from typing import NamedTuple

STRING, ATTRIBUTE, ADDRESS, QUALIFIED = "STRING", "ATTRIBUTE", "ADDRESS", "QUALIFIED"
NUMBER, WORD, COMMENT, NEWLINE, STRAY = "NUMBER", "WORD", "COMMENT", "NEWLINE", "STRAY"
END = "<EOF>"

ACTIONS = ("allow", "deny", "reject", "pass", "log", "audit")
PROMISES = ("never", "always", "only", "isolated")
SECTIONS = ("ingress", "egress")
PROTOCOLS = ("tcp", "udp", "sctp", "icmp", "icmpv6")
_OTHERS = (
    "including builtin because from to except or as limit burst any protocol code service entity node "
    "pod ns namespace serviceaccount all has exists in not starts ends with contains"
)
KEYWORDS = frozenset((*ACTIONS, *PROMISES, *SECTIONS, *PROTOCOLS, *_OTHERS.split()))
"""Words with a meaning of their own; the kind of each is its text, as that of a sign is."""

_WORDS = re.compile(
    r"""[ \t]*(?:
      (?P<STRING>"(?:[^"\\\r\n]|\\["'\\])*"|'(?:[^'\\\r\n]|\\["'\\])*')
    | (?P<ATTRIBUTE>[A-Za-z][A-Za-z0-9_-]*\.[A-Za-z0-9_./-]*)
    | (?P<ADDRESS>[0-9]+\.[0-9A-Za-z.]*(?:/[0-9A-Za-z]*)?
                | [0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?:/[0-9A-Za-z]*)?)
    | (?P<QUALIFIED>[A-Za-z0-9][A-Za-z0-9_-]*/[A-Za-z0-9_-]*)
    | (?P<WORD>[A-Za-z][A-Za-z0-9_-]*)
    | (?P<NUMBER>[0-9]+)
    | (?P<SIGN>&&|\|\||==|!=|[!,:(){}\[\]])
    | (?P<COMMENT>\#[^\r\n]*)
    | (?P<NEWLINE>\r?\n)
    | (?P<STRAY>[^ \t])
    )""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A word: its kind, its text as written, and where in the text it begins."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where it ends, exclusive."""
        return self.start + len(self.text)


def tokenise(text: str) -> list[Token]:
    """Every word, comments and line ends included; only blanks are left out."""
    found = []
    for match in _WORDS.finditer(text):
        kind = match.lastgroup or STRAY
        word = match[kind]
        if kind == WORD:
            kind = word if word in KEYWORDS else WORD
        elif kind == "SIGN":
            kind = word
        found.append(Token(kind, word, match.end() - len(word)))
    return found


def unquoted(token: Token) -> str:
    """What a STRING says."""
    return re.sub(r"\\(.)", r"\1", token.text[1:-1])
