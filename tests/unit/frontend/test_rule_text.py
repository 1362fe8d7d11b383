# SPDX-License-Identifier: Apache-2.0
"""Places inside a field: exact in every way of writing YAML that moves no characters by escapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policyc.compiler.frontend.nodes import Mapping, Scalar, from_python
from policyc.compiler.frontend.rule_text import FileText, RuleText
from policyc.compiler.frontend.yaml_documents import read_documents
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
    """Where the text's X is said to stand."""
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
]


@pytest.mark.parametrize("yaml", EXACT)
def test_a_character_s_place_is_exact(yaml: str) -> None:
    line, column, end = place_of_x(yaml)
    assert end == column + 1
    assert yaml.replace("\r\n", "\n").split("\n")[line - 1][column - 1] == "X"


ESCAPED = ['f: "a\\tX"', "f: 'it''s X'", 'f: "a\n  \\t X"', "f: 'it''s\n  X'", "f: !!str X y"]


@pytest.mark.parametrize("yaml", ESCAPED)
def test_where_escapes_move_characters_it_is_where_the_value_begins(yaml: str) -> None:
    text = RuleText(scalar(yaml))
    span = text.span(2, 3)
    assert (span.line, span.column) == (1, 4)


def test_an_object_without_a_file_has_no_lines() -> None:
    node = from_python("a X", "<scenario>")
    assert isinstance(node, Scalar)
    assert RuleText(node).span(2, 3).line == 0


def test_the_end_of_a_text_is_the_place_behind_it() -> None:
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


def test_a_file_s_lines() -> None:
    text = FileText("ab\ncd\n", "x.intent")
    spans = [text.span(at, at + 1) for at in (0, 3, 4)]
    assert [(span.line, span.column) for span in spans] == [(1, 1), (2, 1), (2, 2)]
