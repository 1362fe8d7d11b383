# SPDX-License-Identifier: Apache-2.0
"""Places inside a field: exact in every way of writing YAML."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.embedded_text import (
    FileText,
    RuleText,
)
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Scalar,
    from_python,
)
from policyc.ir.diagnostics import Report


def scalar(yaml: str) -> Scalar:
    """The value of the field `f`."""
    report = Report()
    (node,) = read_documents(yaml.encode(), "f.yaml", report)
    assert not report.findings and isinstance(node, Mapping)
    value = node.entries["f"].value
    assert isinstance(value, Scalar)
    return value


def place_of_x(yaml: str) -> tuple[int, int, int]:
    """The reported position of the text's X."""
    text = RuleText(scalar(yaml))
    at = text.text.index("X")
    span = text.span(at, at + 1)
    return span.line, span.column, span.end_column


EXACT = [
    "f: a X b",
    "f:    'a X b'",
    'f: "a X b"  # X',
    "f: |\n  a\n  b X\n",
    "f: |\n  X",
    "f: |\n\n\n    a\n      X\n",
    "f: |2\n     a\n  X\n",
    "f: |-\n  é 𝒳 X\n",
    "f: | # a comment\n  a\n  X\n",
    "f: &anchor |\n  a\n  X\n",
    "f: !!str |\n  a\n  X\n",
    "g: 1\n\nf: |\r\n  a\r\n  X b\r\n",
    "f: >\n  a\n  b\n\n  X c\n",
    "f: >-\n  X\n",
    "f: a\n  b X\n  c",
    "f: 'a\n  b\n\n  X c'",
    'f: "a\n  X c"',
    "{f: 'X'}",
    '{"f": "a X"}',
    "f: !!str X y",
    "f: &a 'X'",
    'f: "a\\tX"',
    "f: 'it''s X'",
    'f: "\\"a\\" \\\\ \\n \\x41\\u00e9\\U0001d4b3 X"',
    'f: "a\n  \\t X"',
    "f: 'it''s\n  X'",
    'f: "a\\\n  \n  X"',
    'f: "a \n\n\n  b \\\n   X"',
    'f: "a\r\n  b\\\r\n  X"',
    "f: 'a''\n\n  X'''",
    '{"f": "\\/ \\u0041 X"}',
]


@pytest.mark.parametrize("yaml", EXACT)
def test_a_character_s_place_is_exact(yaml: str) -> None:
    line, column, end = place_of_x(yaml)
    assert end == column + 1
    assert yaml.replace("\r\n", "\n").split("\n")[line - 1][column - 1] == "X"


def test_a_span_ends_after_its_last_character() -> None:
    text = RuleText(scalar('f: "a \\"b\\" c"'))
    span = text.span(2, 5)
    assert (span.column, span.end_column) == (7, 12)
    behind = text.span(5, 5)
    assert (behind.column, behind.end_column) == (12, 13)


def test_the_end_of_a_folded_text_is_on_its_line() -> None:
    span = RuleText(scalar('f: "ab\n  "')).span(3, 3)
    assert (span.line, span.column, span.end_column) == (1, 7, 8)


def test_an_untraceable_position_is_the_start_of_the_value() -> None:
    node = scalar('f: "a\\tX"')
    node.text = "another X"
    assert RuleText(node).span(8, 9) == node.span


def test_every_character_of_a_quoted_text() -> None:
    rng = random.Random(5)
    for _ in range(2000):
        pieces = rng.choices(_PIECES, k=rng.randint(1, 12))
        yaml = 'f: "' + "".join(pieces) + '"'
        value = RuleText(scalar(yaml))
        of_file = yaml.split("\n")
        for at, character in enumerate(value.text):
            span = value.span(at, at + 1)
            written = of_file[span.line - 1][span.column - 1 : span.end_column - 1]
            if character not in " \n":
                assert written == _WRITTEN.get(character, character), yaml


_WRITTEN = {'"': '\\"', "\\": "\\\\", "\t": "\\t", "A": "\\x41", "\u2028": "\\L"}
_PIECES = (*_WRITTEN.values(), "b", "'", " ", "  ", "c", "\n ", " \n\n  ", "\\\n  ", "é")


def test_an_object_without_a_file_has_no_lines() -> None:
    node = from_python("a X", "<scenario>")
    assert isinstance(node, Scalar)
    assert RuleText(node).span(2, 3).line == 0


def test_an_empty_span_at_the_end_of_a_text_is_after_its_last_character() -> None:
    span = RuleText(scalar("f: |\n  ab\n  cd\n")).span(5, 5)
    assert (span.line, span.column) == (3, 5)


@given(
    st.lists(st.text("ab X", min_size=1, max_size=5).map(str.rstrip), min_size=1, max_size=5),
    st.integers(1, 6),
)
def test_every_character_of_a_literal_block(lines: list[str], indent: int) -> None:
    written = ["x" + lines[0], *lines[1:]]  # its first line tells the indentation
    yaml = "f: |\n" + "".join(" " * indent + line + "\n" for line in written)
    value = RuleText(scalar(yaml))
    of_file = yaml.split("\n")
    for at, character in enumerate(value.text):
        if character not in " \n":
            span = value.span(at, at + 1)
            assert of_file[span.line - 1][span.column - 1] == character


def test_spans_of_a_file_have_line_and_column() -> None:
    text = FileText("ab\ncd\n", "x.intent")
    spans = [text.span(at, at + 1) for at in (0, 3, 4)]
    assert [(span.line, span.column) for span in spans] == [(1, 1), (2, 1), (2, 2)]
