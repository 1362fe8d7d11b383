# SPDX-License-Identifier: Apache-2.0
"""The text of a check begins with the number of findings of each kind, and shows some of many."""

from dataclasses import replace

from policyc.backends.report.options import ReportOptions
from policyc.backends.report.render import render
from policyc.backends.report.text import MOST, MOST_OF_CODE
from policyc.ir.diagnostics import Severity
from policyc.ir.results.check import CheckResult, CheckRule
from tests.unit.backends import samples

KINDS = (
    ("PC2007", Severity.NOTE, 40),
    ("PC2003", Severity.WARNING, 2),
    ("PC2011", Severity.WARNING, 30),
    ("PC2001", Severity.ERROR, 1),
)


def result(kinds: tuple[tuple[str, Severity, int], ...] = KINDS) -> CheckResult:
    one = samples.finding("a message")
    return replace(
        samples.CLEAN,
        findings=tuple(
            replace(one, code=code, severity=severity, message=f"{code} number {at}")
            for code, severity, number in kinds
            for at in range(number)
        ),
        rules=tuple(CheckRule(code, f"A rule of {code}", "") for code, _, _ in kinds[:3]),
    )


def text(found: CheckResult, *, is_full: bool = False) -> str:
    return render(found, "text", ReportOptions(is_full=is_full))


def test_the_severest_and_most_frequent_kinds_are_counted_first() -> None:
    assert text(result()).splitlines()[:6] == [
        "73 findings in 2 policies, 1 rule",
        "  1 error PC2001",
        "  30 warnings PC2011: a rule of PC2011",
        "  2 warnings PC2003: a rule of PC2003",
        "  40 notes PC2007: a rule of PC2007",
        "",
    ]


def test_of_each_code_some_findings_are_shown_and_the_others_counted() -> None:
    shown = text(result())
    assert shown.count("note[PC2007]") == shown.count("warning[PC2011]") == MOST_OF_CODE
    assert shown.count("warning[PC2003]") == 2
    assert "not shown: 20 PC2007, 10 PC2011; --all shows every finding" in shown


def test_severe_findings_come_first_if_there_is_no_room_for_all_codes() -> None:
    notes = tuple((f"PC3{at:03}", Severity.NOTE, MOST_OF_CODE) for at in range(9))
    shown = text(result((*notes, ("PC2001", Severity.ERROR, 3))))
    assert (shown.count("error[PC2001]"), shown.count("note[PC3")) == (3, MOST - 3)


def test_all_findings_are_shown_on_request() -> None:
    shown = text(result(), is_full=True)
    assert shown.count("[PC20") == 73
    assert "not shown" not in shown


def test_without_findings_the_first_line_says_so() -> None:
    assert text(samples.CLEAN).splitlines()[:2] == ["no findings in 2 policies, 1 rule", ""]
