# SPDX-License-Identifier: Apache-2.0
"""The layout: twice is once, no word is lost, and what it looks like."""

import pytest
from hypothesis import given

from policyc.grammar.layout import lay_out_expression, lay_out_intents, lay_out_rules
from policyc.grammar.parse import parse_rules
from policyc.grammar.statements import RULE_STARTS, statements
from policyc.grammar.tokens import NEWLINE, tokenise
from tests.unit.grammar.samples import BLOCKS, EXPRESSIONS


def words(text: str) -> list[str]:
    return [token.text.rstrip() for token in tokenise(text) if token.kind != NEWLINE]


def shapes(text: str) -> list[list[str]]:
    return [[t.text for t in s.tokens] for s in statements(tokenise(text), RULE_STARTS)]


@given(BLOCKS)
def test_a_block_s_layout_is_stable_and_keeps_every_word(text: str) -> None:
    once = lay_out_rules(text)
    assert lay_out_rules(once) == once
    assert words(once) == words(text)
    assert shapes(once) == shapes(text)
    assert not parse_rules(once).problems


@given(EXPRESSIONS)
def test_an_expression_s_layout_is_stable_and_keeps_every_word(text: str) -> None:
    once = lay_out_expression(text.replace(" ", "   "))
    assert lay_out_expression(once) == once
    assert words(once) == words(text)


LAID_OUT = [
    ("ingress :\nallow   any", "ingress:\n  allow any\n"),
    ("\n\n ingress:\n\n\n  pass\n\n", "ingress:\n\n  pass\n"),
    (
        "#a\ningress:\n#b\n pass#c\n#d",
        "# a\n".replace(" ", "") + "ingress:\n  #b\n  pass  #c\n  #d\n",
    ),
    ("ingress:\npass\n# last\n\negress:", "ingress:\n  pass\n  # last\n\negress:\n"),
    ("ingress:\npass\n# next\negress:", "ingress:\n  pass\n# next\negress:\n"),
    ("ingress:\n pass\n # end\negress:", "ingress:\n  pass\n  # end\negress:\n"),
    (
        "  ingress:\n      pass\n\n    #a\n  #b\n    #c\n  egress:#d",
        "ingress:\n  pass\n\n  #a\n#b\n#c\negress:  #d\n",
    ),
    ("   #a\n ingress:", "#a\ningress:\n"),
    ("allow tcp/1 ,tcp/2\nfrom any", "  allow tcp/1, tcp/2\n    from any\n"),
    (
        'allow from ( pod [ "a" ] in { "x" ,"y" } )&&! has ( ns.b )',
        '  allow from (pod["a"] in {"x", "y"}) && !has(ns.b)\n',
    ),
    ("allow from any\n  # why\n  or all", "  allow from any\n    # why\n    or all\n"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "expected"), LAID_OUT)
def test_formatted_layout(text: str, expected: str) -> None:
    assert lay_out_rules(text) == expected


def test_intents_begin_at_the_margin() -> None:
    assert lay_out_intents("  never  any\n  because 'x' # y") == "never any\n  because 'x'  # y\n"
