# SPDX-License-Identifier: Apache-2.0
"""Findings as text: of many, the first of each code are printed and the rest is counted."""

import io

import pytest

from policyc.backends.report.text import MOST, MOST_OF_CODE, print_findings
from policyc.ir.diagnostics import Code, Diagnostic, Severity
from policyc.ir.spans import Span

ERROR = Code("PC9001", Severity.ERROR, "wrong")
NOTE = Code("PC9002", Severity.NOTE, "odd")


def found(code: Code, number: int, first_line: int = 1) -> list[Diagnostic]:
    return [code.at(Span("a.yaml", first_line + at, 1)) for at in range(number)]


def printed(findings: list[Diagnostic]) -> str:
    out = io.StringIO()
    print_findings(findings, out)
    return out.getvalue()


def test_few_findings_are_all_printed_in_their_order() -> None:
    text = printed([*found(NOTE, MOST_OF_CODE), *found(ERROR, MOST_OF_CODE, 100)])
    lines = [line.partition(" ")[0] for line in text.splitlines() if "PC9" in line]
    assert lines == [f"a.yaml:{n}:1:" for n in (*range(1, 21), *range(100, 120))]
    assert "not shown" not in text and text.endswith("policyc: 20 errors\n")


def test_the_rest_of_a_code_is_counted() -> None:
    text = printed([*found(ERROR, MOST_OF_CODE + 3), *found(NOTE, 1)])
    assert text.count("[PC9001]") == MOST_OF_CODE and text.count("[PC9002]") == 1
    assert "policyc: not shown: 3 PC9001\n" in text
    assert text.endswith("policyc: 23 errors\n")


def test_errors_are_printed_before_others_are_counted() -> None:
    codes = [Code(f"PC80{n:02}", Severity.NOTE, "odd") for n in range(10)]
    notes = [each for code in codes for each in found(code, MOST_OF_CODE)]
    text = printed([*notes, *found(ERROR, 2)])
    assert text.count("[PC9001]") == 2
    assert text.count("[PC80") == MOST - 2


def test_an_environment_variable_shows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLICYC_ALL_FINDINGS", "1")
    text = printed(found(ERROR, 300))
    assert text.count("[PC9001]") == 300 and "not shown" not in text
