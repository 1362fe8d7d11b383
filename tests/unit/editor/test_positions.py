# SPDX-License-Identifier: Apache-2.0
"""Places in characters, and positions in the units of an editor."""

import pytest

from policyc.compiler.editor.positions import Text
from policyc.ir.spans import Span


@pytest.mark.parametrize(("encoding", "units"), [("utf-8", 4), ("utf-16", 2), ("utf-32", 1)])
def test_units_of_an_emoji_are_those_of_the_encoding(encoding: str, units: int) -> None:
    text = Text("a: 1\r\n😀: name\r\n", encoding)
    assert text.range_of(Span("f", 2, 4)) == ((1, units + 2), (1, units + 6))
    assert text.offset((1, units)) == 7
    assert text.offset((1, 99)) == len("a: 1\r\n😀: name")


def test_a_line_end_of_yaml_alone_does_not_end_a_line_of_an_editor() -> None:
    text = Text("a: x\u2028b: y\nc: z")
    assert text.range_of(Span("f", 2, 4)) == ((0, 8), (0, 9))
    assert text.range_of(Span("f", 3, 1, 2)) == ((1, 0), (1, 1))


@pytest.mark.parametrize("span", [Span("f", 0, 0), Span("f", 9, 9, 20), Span("f", 1, 1)])
def test_a_place_outside_of_an_empty_text_is_its_beginning(span: Span) -> None:
    assert Text("").range_of(span) == ((0, 0), (0, 0))
