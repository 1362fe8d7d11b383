# SPDX-License-Identifier: Apache-2.0
"""The fast tokeniser and the generated lexer are one language."""

from antlr4 import InputStream
from hypothesis import example, given
from hypothesis import strategies as st

from policyc.grammar.generated.PolicycLexer import PolicycLexer
from policyc.grammar.shapes import KINDS
from policyc.grammar.tokens import KEYWORDS, Token, tokenise, unquoted
from tests.unit.grammar.samples import BLOCKS, INTENTS, RULES, list_of

SIGNS = list_of("&& || == != ! = & | , : ( ) { } [ ] \" ' \\ #")
WORDS = list_of('a - _ . / 0 10.0.0.0/8 fe80::1 :: pod.app é x/y 100/s ad:1: "a\\"b"')
BLANKS = (" ", "\t", "\n", "\r", "\r\n", "\x85", "\u2028")
PIECES = st.lists(st.sampled_from([*sorted(KEYWORDS), *SIGNS, *WORDS, *BLANKS]), max_size=12).map(
    "".join
)


def by_antlr(text: str) -> list[Token]:
    lexer = PolicycLexer(InputStream(text))
    lexer.removeErrorListeners()
    found = []
    while (token := lexer.nextToken()).type != -1:
        kind = KINDS[token.type]
        if kind != "SPACE":
            found.append(Token(kind, token.text, token.start))
    return found


@given(st.one_of(PIECES, BLOCKS, st.text(max_size=30)))
@example("\n".join((*RULES, *INTENTS)))
@example('1a 1.a/b a.b/c a/b.c ab:cd:ef/1 :: ingress: \'a"b\' "a\'b" "a\nb"')
def test_both_lexers_find_the_same_words(text: str) -> None:
    assert tokenise(text) == by_antlr(text)


def test_the_keywords_are_the_grammar_s() -> None:
    literals = {name[1:-1] for name in PolicycLexer.literalNames[1:]}
    assert {word for word in literals if word.isalnum()} == KEYWORDS


def test_a_quoted_text_means_the_text_between_the_quotes() -> None:
    (token,) = tokenise(r'"a \"b\" \\ c"')
    assert unquoted(token) == 'a "b" \\ c'
