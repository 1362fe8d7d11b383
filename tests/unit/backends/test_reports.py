# SPDX-License-Identifier: Apache-2.0
"""Every result in every format: valid, complete, the same each time, and safe with any text in it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from markdown_it import MarkdownIt

from policyc.backends.report import options as report_options
from policyc.backends.report.options import PLAIN, ReportOptions, options_for
from policyc.backends.report.page import printable
from policyc.backends.report.render import formats_of, has_format, render
from policyc.ir.diagnostics import Code, Severity
from policyc.ir.errors import HostError, InputError, InternalError
from policyc.ir.results.check import CheckResult
from policyc.ir.results.common import Place
from policyc.ir.results.diff import DifferenceKind, DiffResult
from policyc.ir.results.failure import Failure
from policyc.ir.results.verify import VerifyResult
from policyc.ir.spans import Span
from tests.unit.backends import samples

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
SARIF = json.loads((Path(__file__).parent / "sarif-schema-2.1.0.json").read_text())
BAD = Code("PC0001", Severity.ERROR, "{what} is wrong")
FAILURES = [
    Failure.of(InputError([BAD.at(samples.span(3), what=samples.NASTY).help("mend it")])),
    Failure.of(HostError("no clang", "install clang")),
    Failure.of(InternalError("a bug")),
]
NASTY: list[Any] = [
    samples.diff(samples.NASTY, 3, 9),
    samples.check(samples.NASTY, 2),
    samples.verify(samples.NASTY),
]
RESULTS: list[Any] = [
    *NASTY,
    samples.diff(),
    samples.EQUAL,
    samples.GAVE_UP,
    samples.check(),
    samples.CLEAN,
    samples.verify(),
]
NAMES = {DiffResult: "diff", CheckResult: "check", VerifyResult: "verify"}


def sarif_of(result: object, options: ReportOptions = PLAIN) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(render(result, "sarif", options))
    jsonschema.Draft4Validator(SARIF).validate(log)
    return log


@pytest.mark.parametrize("shown", [DiffResult, CheckResult, VerifyResult])
def test_the_formats_of_a_result_begin_with_text(shown: type) -> None:
    assert formats_of(shown)[:2] == ["text", "json"]
    assert {"github", "junit", "sarif", "markdown"} <= set(formats_of(shown))
    assert not has_format(shown, "papyrus")


@pytest.mark.parametrize("result", RESULTS)
def test_json_matches_its_schema(result: object) -> None:
    name = NAMES[type(result)]
    schema = json.loads((SCHEMAS / f"{name}-v1.schema.json").read_text())
    shown = json.loads(render(result, "json"))
    jsonschema.Draft202012Validator(schema).validate(shown)
    assert shown["schema"] == f"policyc.dev/{name}/v1"


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.kind.value)
def test_a_failure_is_a_document_in_each_machine_format(failure: Failure) -> None:
    shown = json.loads(render(failure, "json"))
    name = shown["schema"].split("/")[1]
    schema = json.loads((SCHEMAS / f"{name}-v1.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(shown)
    (run,) = sarif_of(failure)["runs"]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert run["invocations"][0]["exitCode"] == failure.exit_code
    assert f"exit code {failure.exit_code}" in render(failure, "markdown")
    assert not has_format(Failure, "text")


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("form", ["text", "json", "sarif", "markdown", "github", "junit"])
def test_a_report_is_the_same_each_time_and_ends_its_last_line(result: object, form: str) -> None:
    once = render(result, form)
    assert once == render(result, form)
    assert once.endswith("\n") and not once.endswith("\n\n")
    assert "\x1b" not in once


@pytest.mark.parametrize("result", RESULTS)
def test_sarif_is_valid_and_every_result_has_a_rule_with_help(result: object) -> None:
    (run,) = sarif_of(result)["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for found in run["results"]:
        rule = rules[found["ruleIndex"]]
        assert rule["id"] == found["ruleId"] and rule["help"]["text"]
        assert found["locations"]


def test_sarif_has_the_exact_region_and_the_witness_as_a_code_flow() -> None:
    (found,) = sarif_of(samples.diff())["runs"][0]["results"]
    physical = found["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "policies/web.yaml", "uriBaseId": "%SRCROOT%"}
    assert physical["region"] == {"startLine": 24, "startColumn": 7, "endColumn": 15}
    (thread,) = found["codeFlows"][0]["threadFlows"]
    lines = [
        step["location"]["physicalLocation"]["region"]["startLine"]
        for step in thread["locations"]
        if "physicalLocation" in step["location"]
    ]
    assert lines == [3, 24], "what isolated it before, what allows it after"
    assert found["ruleId"] == "traffic-opened"


def test_fingerprints_survive_line_moves_and_tell_findings_apart() -> None:
    def prints(*lines: int) -> list[str]:
        found = tuple(samples.finding(line=line) for line in lines)
        (run,) = sarif_of(replace(samples.CLEAN, findings=found))["runs"]
        return [each["partialFingerprints"]["policyc/v1"] for each in run["results"]]

    assert prints(24) == prints(99)
    opened, closed = (
        sarif_of(replace(samples.EQUAL, differences=(samples.difference(kind=kind),)))
        for kind in (DifferenceKind.WIDENED, DifferenceKind.NARROWED)
    )
    one, other = (log["runs"][0]["results"][0]["partialFingerprints"] for log in (opened, closed))
    assert one["policyc/v1"] != other["policyc/v1"]
    assert one["primaryLocationLineHash"].startswith(one["policyc/v1"])


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("a b/ü.yaml", {"uri": "a%20b/%C3%BC.yaml", "uriBaseId": "%SRCROOT%"}),
        ("/root/of/run/x.yaml", {"uri": "x.yaml", "uriBaseId": "%SRCROOT%"}),
        ("/elsewhere/x.yaml", {"uri": "file:///elsewhere/x.yaml"}),
        ("../x.yaml", {"uri": "file:///root/of/x.yaml"}),
        ("git:main:p/x.yaml", {"uri": "p/x.yaml", "uriBaseId": "%SRCROOT%"}),
        ("<stdin>", None),
    ],
)
def test_uris_are_relative_to_the_run(file: str, expected: dict[str, str] | None) -> None:
    place = Place(Span(file, 2, 1, 3), "", "x")
    result = replace(samples.CLEAN, findings=(replace(samples.finding(), place=place),))
    (run,) = sarif_of(result, ReportOptions(root=Path("/root/of/run")))["runs"]
    (where,) = run["results"][0]["locations"]
    physical = where.get("physicalLocation", {})
    assert physical.get("artifactLocation") == expected
    assert ("region" in physical) == (expected is not None and not file.startswith("git:"))


def test_suppressed_findings_have_their_reason() -> None:
    (run,) = sarif_of(samples.check("why not"))["runs"]
    marked = [found["suppressions"] for found in run["results"] if "suppressions" in found]
    assert marked == [[{"kind": "inSource", "justification": "why not"}]]


def test_sarif_marks_an_undecided_run_as_unsuccessful() -> None:
    for result in (samples.GAVE_UP, samples.check(), samples.verify()):
        (run,) = sarif_of(result)["runs"]
        assert run["invocations"][0]["executionSuccessful"] is False
    (run,) = sarif_of(samples.EQUAL)["runs"]
    assert run["invocations"] == [{"executionSuccessful": True}]


@pytest.mark.parametrize("result", RESULTS)
def test_markdown_escapes_user_text(result: object) -> None:
    html = MarkdownIt("commonmark").enable("table").render(render(result, "markdown"))
    outside = re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL)
    assert "octocat" not in outside
    assert "<b>" not in html and "<a " not in html and "<em>" not in html
    assert "\x1b" not in html


def test_markdown_shows_user_text_as_it_is() -> None:
    html = (
        MarkdownIt("commonmark")
        .enable("table")
        .render(render(samples.diff("a|b `c` <d>"), "markdown"))
    )
    assert html.count("<code>a|b `c` &lt;d&gt;</code>") >= 2
    assert html.count("<td>") == 5, "a pipe opens no further cell"


@pytest.mark.parametrize("text", ["x" * 400, samples.NASTY * 9, "ü|" * 5000])
@pytest.mark.parametrize("count", [1, 60, 600])
def test_a_comment_fits_and_counts_omissions(text: str, count: int) -> None:
    many = ("n " + text,) * count
    for result in (
        replace(samples.diff(text, count), notes=many),
        replace(samples.check(text, count), undecided=many),
        replace(samples.verify(text, count), notes=many),
    ):
        shown = render(result, "markdown")
        assert len(shown) <= 60_000 and len(shown.encode()) <= 60_000
        if count > 60:
            rows, details = (
                int(re.search(rf"\*\*(\d+) {what}s left out", shown).group(1))  # type: ignore[union-attr]
                for what in ("row", "detail")
            )
            assert 0 < rows <= details
        assert shown.rstrip().endswith("</sub>")


@pytest.mark.parametrize(("size", "count", "what"), [(400, 300, "row"), (40, 100, "detail")])
def test_a_short_comment_shows_opened_and_closed_flows(size: int, count: int, what: str) -> None:
    """Rows are kept before details, so each has a case in which it does not fit."""
    opened = samples.diff("x" * size, count)
    closed = tuple(samples.difference(f"closed {at}", DifferenceKind.NARROWED) for at in range(3))
    shown = render(replace(opened, differences=(*opened.differences, *closed)), "markdown")
    assert f"{what}s left out" in shown
    mark = "| **closed** |" if what == "row" else ". closed: "
    assert shown.count(mark) == len(closed)


class _Terminal:
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal: Any = _Terminal()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert options_for(terminal).colour
    assert options_for(terminal).width == report_options.TERMINAL_COLUMNS == 80
    monkeypatch.setenv("NO_COLOR", "1")
    assert not options_for(terminal).colour
    assert "\x1b[" in render(samples.diff(), "text", ReportOptions(colour=True, width=80))


@pytest.mark.parametrize("result", RESULTS)
def test_text_is_folded_at_words_on_a_terminal_only(result: object) -> None:
    folded = render(result, "text", ReportOptions(width=80))
    for line in folded.splitlines():
        assert len(line) <= 80 or " " not in line.strip(), line
    piped = render(result, "text")
    assert "".join(piped.split()) == "".join(folded.split()), "nothing is lost, nothing is broken"
    if result in NASTY:
        assert printable(samples.NASTY) in piped


def test_text_quotes_the_line_of_a_finding() -> None:
    options = ReportOptions(line_of=lambda span: "  - from: []\n" if span.line == 24 else None)
    shown = render(samples.check(), "text", options)
    assert "   24 |   - from: []" in shown
    assert "warning[PC2001]: the rule is shadowed" in shown
