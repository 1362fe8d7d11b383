# SPDX-License-Identifier: Apache-2.0
"""Results as JUnit XML, which test reports of CI systems read.

A region, a finding and an intent are a test case each. What is open or closed by a change, a warning and
a broken intent are failures; an undecided question is an error; a note is a case that passes.
"""

from collections.abc import Iterable
from xml.etree import ElementTree as Xml

from policyc.backends.report.entries import (
    Entry,
    Level,
    check_entries,
    diff_entries,
    failure_entries,
    omitted_lines,
    place_in_work_tree,
    shown,
    verify_entries,
)
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.replay import replay_entries, replay_headline
from policyc.backends.report.words import check_headline, diff_headline, verify_headline
from policyc.ir.printable import printable
from policyc.ir.results.check import CheckResult
from policyc.ir.results.diff import DiffResult
from policyc.ir.results.failure import Failure
from policyc.ir.results.replay import ReplayResult
from policyc.ir.results.verify import VerifyResult

FORMAT = "junit"
_PASSES = (Level.HOLDS, Level.NOTE)


def diff_junit(result: DiffResult, options: ReportOptions) -> str:
    """A case for each region; one that passes if there is none."""
    headline = f"{result.outcome.value}: {diff_headline(result)}"
    headline = "; ".join((headline, *omitted_lines(result)))
    return _document("policyc diff", headline, diff_entries(result), options)


def check_junit(result: CheckResult, options: ReportOptions) -> str:
    """A case for each finding; one that passes if there is none."""
    return _document("policyc check", check_headline(result), check_entries(result), options)


def verify_junit(result: VerifyResult, options: ReportOptions) -> str:
    """A case for each intent."""
    return _document("policyc verify", verify_headline(result), verify_entries(result), options)


def replay_junit(result: ReplayResult, options: ReportOptions) -> str:
    """A case for each observed flow that is denied or affected; one that passes if there is none."""
    headline = replay_headline(result)
    return _document("policyc replay", headline, replay_entries(result), options)


def failure_junit(failure: Failure, options: ReportOptions) -> str:
    """Each error that stopped the command is a case with an error."""
    headline = f"policyc failed with exit code {failure.exit_code}"
    return _document("policyc", headline, failure_entries(failure), options, is_failed=True)


def _document(
    name: str,
    headline: str,
    entries: Iterable[Entry],
    options: ReportOptions,
    is_failed: bool = False,
) -> str:
    given = list(entries)
    cases = [_case(name, entry, options, is_failed) for entry in given]
    if not cases:
        cases = [Xml.Element("testcase", classname=name, name=printable(headline))]
    numbers = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
    }
    suite = Xml.Element("testsuite", {"name": name, **numbers, "skipped": "0"})
    properties = Xml.SubElement(suite, "properties")
    Xml.SubElement(properties, "property", name="result", value=printable(headline))
    suite.extend(cases)
    suites = Xml.Element("testsuites", {"name": name, **numbers})
    suites.append(suite)
    Xml.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{Xml.tostring(suites, encoding="unicode")}\n'


def _case(suite: str, entry: Entry, options: ReportOptions, is_failed: bool) -> Xml.Element:
    case = Xml.Element("testcase", classname=f"{suite} {entry.kind}", name=printable(entry.title))
    place = {} if entry.span is None else place_in_work_tree(entry.span, options)
    for name in ("file", "line"):
        if name in place:
            case.set(name, printable(place[name]))
    where = () if entry.span is None else (str(entry.span),)
    text = shown((*where, *entry.lines))
    if not entry.is_decided or (is_failed and entry.level not in _PASSES):
        kind = "error"
    elif entry.level in _PASSES:
        kind = "system-out"
    else:
        kind = "failure"
    child = Xml.SubElement(case, kind)
    if kind != "system-out":
        child.set("message", printable(entry.title))
        child.set("type", entry.kind)
    child.text = text
    return case


RENDERERS = {
    DiffResult: diff_junit,
    CheckResult: check_junit,
    VerifyResult: verify_junit,
    ReplayResult: replay_junit,
    Failure: failure_junit,
}
