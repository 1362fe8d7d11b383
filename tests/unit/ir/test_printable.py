# SPDX-License-Identifier: Apache-2.0
"""What others wrote is shown with everything escaped that could act or hide."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policyc.ir.diagnostics import Diagnostic, Severity, render
from policyc.ir.printable import json_text, printable, printable_line, without_commands
from policyc.ir.spans import Span

ACTS = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain grün 日本語 שלום ✓", "plain grün 日本語 שלום ✓"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[31m\x7f\x9b", r"\x1b[31m\x7f\x9b"),
        ("\u202ex\u2066\u200f\u061c", r"\u202ex\u2066\u200f\u061c"),
        ("a\u2028b\u2029\u200b\ufeff\u00ad", r"a\u2028b\u2029\u200b\ufeff\xad"),
        ("\udcff\U000e0041", r"\udcff\U000e0041"),
        ("\u3164\u115f", r"\u3164\u115f"),
        ("a ##[error]b ##vso[x]", r"a \x23#[error]b \x23#vso[x]"),
        ("### 1", "### 1"),
    ],
)
def test_characters_that_act_on_a_terminal_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("::error::x", r"\x3a:error::x"),
        ("  ::add-mask::x", r"  \x3a:add-mask::x"),
        ("::debug file=a::x", r"\x3a:debug file=a::x"),
        ("::1 -> ::ffff:10.0.0.1: allow", "::1 -> ::ffff:10.0.0.1: allow"),
        ("::/0, ::2", "::/0, ::2"),
        ("a ::error::x", "a ::error::x"),
    ],
)
def test_no_output_line_begins_a_log_command(line: str, shown: str) -> None:
    assert printable_line(line) == shown
    assert without_commands(f"first\n{line}\n") == f"first\n{shown}\n"


@given(st.text())
def test_printable_text_contains_no_terminal_or_log_command(text: str) -> None:
    shown = printable_line(text)
    assert not ACTS.search(shown)
    assert "##[" not in shown
    assert not shown.lstrip().startswith(("::error", "::add-mask"))


@given(st.recursive(st.text() | st.sampled_from(["##[error]x", "\x7f"]), st.lists))
def test_json_has_the_same_values_and_no_text_that_acts(value: object) -> None:
    text = json_text(value)
    assert json.loads(text) == value
    assert not ACTS.search(text)
    assert "##[" not in text


def test_a_caret_is_below_the_marked_text() -> None:
    line = 'a: "\u202e\x1b", name: x\n'
    span = Span("p.yaml", 1, 10, 14)
    shown = render(Diagnostic("PC0000", Severity.ERROR, "wrong", span), lambda _: line)
    _, quoted, carets = shown.splitlines()
    assert quoted == r'    1 | a: "\u202e\x1b", name: x'
    assert carets == "      | ".ljust(quoted.index("name")) + "^^^^"


def test_a_caret_covers_escaped_text() -> None:
    line = "kind: \x1bx\n"
    span = Span("p.yaml", 1, 7, 9)
    shown = render(Diagnostic("PC0000", Severity.ERROR, "wrong", span), lambda _: line)
    assert shown.splitlines()[1:] == [r"    1 | kind: \x1bx", "      |       ^^^^^"]
