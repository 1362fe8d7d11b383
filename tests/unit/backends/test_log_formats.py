# SPDX-License-Identifier: Apache-2.0
"""Annotations of GitHub Actions and JUnit XML: levels, places, escapes, and failures."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from policyc.backends.report.options import ReportOptions
from policyc.backends.report.render import render
from policyc.ir.diagnostics import Code, Severity
from policyc.ir.errors import HostError, InputError
from policyc.ir.results.diff import DifferenceKind, counts_of
from policyc.ir.results.failure import Failure
from policyc.ir.results.verify import IntentStatus
from policyc.ir.spans import Span
from tests.unit.backends import samples

COMMAND = re.compile(r"::(error|warning|notice) ([^\n]*?)::(.*)")
BROKEN = Failure.of(
    InputError(
        [Code("PC9001", Severity.ERROR, "wrong: a,b").at(Span("a,b:c.yaml", 3, 4)).help("fix")]
    )
)


def commands(document: str) -> list[tuple[str, dict[str, str], str]]:
    """Each command as the runner decodes it: level, properties, message."""

    def decoded(text: str, names: tuple[tuple[str, str], ...]) -> str:
        for code, character in names:
            text = text.replace(code, character)
        return text.replace("%25", "%")

    found = []
    lines = (("%0D", "\r"), ("%0A", "\n"))
    for line in document.splitlines():
        match = COMMAND.fullmatch(line)
        if match:
            pairs = (pair.partition("=") for pair in match[2].split(","))
            properties = {
                name: decoded(value, (*lines, ("%3A", ":"), ("%2C", ",")))
                for name, _, value in pairs
            }
            found.append((match[1], properties, decoded(match[3], lines)))
    return found


def test_an_opened_region_is_an_error_at_the_rule_that_allows_it_now() -> None:
    document = render(samples.diff(), "github")
    assert document.startswith("policyc diff: widened: 1 region opened\n")
    ((level, properties, message),) = commands(document)
    assert level == "error"
    assert properties["file"] == "policies/web.yaml"
    assert (properties["line"], properties["col"], properties["endColumn"]) == ("24", "7", "15")
    assert properties["title"] == "policyc traffic-opened"
    first, *rest = message.split("\n")
    assert first.startswith("opened: any address -> [shop: app=web]: TCP 8080")
    assert rest[0].startswith("for example ") and any(line.startswith("after: ") for line in rest)


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        (DifferenceKind.WIDENED, "error"),
        (DifferenceKind.NARROWED, "warning"),
        (DifferenceKind.CHANGED, "notice"),
        (DifferenceKind.LATENT, "notice"),
    ],
)
def test_the_level_follows_the_change(kind: DifferenceKind, level: str) -> None:
    changed = replace(samples.difference(), kind=kind)
    result = replace(samples.diff(), differences=(changed,), counts=counts_of([kind]))
    assert [found[0] for found in commands(render(result, "github"))] == [level]


def test_a_step_gets_ten_annotations_of_a_level_and_the_rest_as_lines() -> None:
    document = render(samples.diff(count=13), "github")
    assert len(commands(document)) == 10
    assert len(re.findall(r"^policies/web\.yaml:24:7: error: opened", document, re.M)) == 3


def test_an_equal_result_has_no_annotation_and_one_case_that_passes() -> None:
    assert commands(render(samples.EQUAL, "github")) == []
    suite = Xml.fromstring(render(samples.EQUAL, "junit"))
    (case,) = suite.iter("testcase")
    assert list(case) == [] and suite.get("failures") == suite.get("errors") == "0"


def test_an_undecided_result_is_an_error_in_both() -> None:
    ((level, properties, message),) = commands(render(samples.GAVE_UP, "github"))
    assert level == "error" and "file" not in properties and "timeout" in message
    suite = Xml.fromstring(render(samples.GAVE_UP, "junit"))
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")


def test_text_from_policies_makes_no_command_and_no_property() -> None:
    hostile = "a\n::error::b%0Ac ::warning file=x::y ##[group]z\x1b[31m\u202e"
    for result in (samples.diff(hostile), samples.check(hostile), samples.verify(hostile)):
        document = render(result, "github")
        assert "\x1b" not in document and "\u202e" not in document and "##[" not in document
        starts = [line for line in document.splitlines() if line.startswith("::")]
        assert len(starts) == len(commands(document))
        assert all("policyc" in properties["title"] for _, properties, _ in commands(document))
        assert not any(re.match(r"::(error|warning)", m) for _, _, m in commands(document))
        Xml.fromstring(render(result, "junit"))


def test_a_property_escapes_what_separates_properties() -> None:
    ((_, properties, message),) = commands(render(BROKEN, "github"))
    assert properties["file"] == "a,b:c.yaml" and properties["line"] == "3"
    assert message == "wrong: a,b\nhelp: fix"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("policies/a.yaml", {"file": "policies/a.yaml", "line": "3", "col": "4"}),
        ("git:main:policies/a.yaml", {"file": "policies/a.yaml"}),
        ("<stdin>", {}),
        ("bundle:out:policies/a.yaml", {}),
        ("<kustomize overlay>", {}),
    ],
)
def test_the_place_is_a_file_of_the_pull_request(file: str, expected: dict[str, str]) -> None:
    finding = Code("PC9001", Severity.ERROR, "wrong").at(Span(file, 3, 4))
    ((_, properties, _),) = commands(render(Failure.of(InputError([finding])), "github"))
    assert {**expected, "title": "policyc PC9001"} == properties
    suite = Xml.fromstring(render(Failure.of(InputError([finding])), "junit"))
    (case,) = suite.iter("testcase")
    assert (case.get("file"), case.get("line")) == (expected.get("file"), expected.get("line"))


def test_regions_that_a_limit_leaves_out_are_counted() -> None:
    result = samples.diff(count=2, omitted=5)
    words = "not shown: 5 regions opened; --all shows every region"
    assert f"\n{words}\n" in render(result, "github")
    value = Xml.fromstring(render(result, "junit")).find("testsuite/properties/property")
    assert value is not None and words in (value.get("value") or "")
    assert "not shown" not in render(samples.diff(count=2), "github")


def test_an_absolute_path_is_relative_to_the_working_directory(tmp_path: Path) -> None:
    finding = Code("PC9001", Severity.ERROR, "wrong").at(Span(str(tmp_path / "a.yaml"), 3, 4))
    options = ReportOptions(root=tmp_path)
    ((_, properties, _),) = commands(render(Failure.of(InputError([finding])), "github", options))
    assert properties["file"] == "a.yaml"


def test_findings_of_check_keep_their_severity() -> None:
    findings = tuple(replace(samples.finding(), severity=severity) for severity in Severity)
    result = replace(samples.check(), findings=findings)
    levels = [found[0] for found in commands(render(result, "github"))]
    assert levels[:3] == ["error", "warning", "notice"]
    suite = Xml.fromstring(render(result, "junit"))
    kinds = [case[0].tag for case in suite.iter("testcase")][:3]
    assert kinds == ["failure", "failure", "system-out"]


def test_each_intent_is_a_case() -> None:
    result = samples.verify()
    suite = Xml.fromstring(render(result, "junit"))
    tags = [case[0].tag for case in suite.iter("testcase")]
    expected = {
        IntentStatus.HOLDS: "system-out",
        IntentStatus.BROKEN: "failure",
        IntentStatus.VACUOUS: "failure",
        IntentStatus.UNDECIDED: "error",
    }
    assert tags == [expected[intent.status] for intent in result.intents]
    holds = sum(intent.status is IntentStatus.HOLDS for intent in result.intents)
    assert len(commands(render(result, "github"))) == len(result.intents) - holds


def test_a_case_has_the_place_and_the_witness() -> None:
    suite = Xml.fromstring(render(samples.diff(), "junit"))
    (case,) = suite.iter("testcase")
    assert (case.get("file"), case.get("line")) == ("policies/web.yaml", "24")
    failure = case.find("failure")
    assert failure is not None and failure.get("type") == "traffic-opened"
    assert "for example " in (failure.text or "")


@pytest.mark.parametrize("failure", [BROKEN, Failure.of(HostError("no clang", hint="install it"))])
def test_a_failed_command_is_an_error(failure: Failure) -> None:
    suite = Xml.fromstring(render(failure, "junit"))
    assert suite.get("errors") == suite.get("tests") == "1"
    ((level, _, message),) = commands(render(failure, "github"))
    assert level == "error" and "help: " in message
    assert f"exit code {failure.exit_code}" in render(failure, "github")
