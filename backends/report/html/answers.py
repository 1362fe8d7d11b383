# SPDX-License-Identifier: Apache-2.0
"""The parts of the page about one policy set: findings, intents, coverage, and its policies."""

from collections.abc import Iterable, Sequence

from policyc.backends.report.coverage import coverage_headline, coverage_lines
from policyc.backends.report.html.changes import witness
from policyc.backends.report.html.markup import Markup, cells, joined, table, tag
from policyc.backends.report.html.places import Places
from policyc.backends.report.verdicts import where
from policyc.backends.report.words import check_headline, verify_headline
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.policy import Policy
from policyc.ir.results.check import CheckResult
from policyc.ir.results.common import Finding
from policyc.ir.results.verify import IntentAnswer, VerifyResult


def findings(result: CheckResult, places: Places) -> Markup:
    """What `check` says, with the suppressed findings and the coverage of a cluster."""
    parts = [tag("p", check_headline(result))]
    if result.findings:
        rows = [_finding(each, places) for each in result.findings]
        heads = ("Finding", "Place", "What", "Remedy")
        parts.append(table("Findings of check", heads, rows, id="findings"))
    for quiet in result.suppressed:
        said = f"suppressed, {quiet.reason}: {quiet.finding.code} {quiet.finding.message}"
        parts.append(tag("p", said, class_="faint"))
    if result.coverage is not None:
        lines = (coverage_headline(result.coverage), *coverage_lines(result.coverage, None))
        parts += [tag("h3", "Coverage"), tag("ul", *(tag("li", line) for line in lines))]
    return joined(parts)


def _finding(each: Finding, places: Places) -> Markup:
    name = tag("span", f"{each.severity.value} {each.code}", class_=f"badge {each.severity.value}")
    said = [tag("p", each.message), tag("p", each.explanation, class_="faint")]
    said += [tag("p", f"{note.text} ({where(note.span)})", class_="faint") for note in each.notes]
    if each.witness is not None:
        said.append(witness(each.witness))
    return tag("tr", cells(name, places.link(each.place), joined(said), each.hint))


def reading(findings: Iterable[Diagnostic]) -> Markup:
    """What the readers of the input say."""
    rows = [
        tag("tr", cells(f"{each.severity.value} {each.code}", where(each.span), each.message))
        for each in findings
    ]
    return table("Findings of reading", ("Finding", "Place", "What"), rows) if rows else Markup()


def intents(result: VerifyResult, places: Places) -> Markup:
    """The answer for each intent."""
    rows = [_intent(each, places) for each in result.intents]
    heads = ("Status", "Intent", "Why", "Responsible")
    shown = table("Intents", heads, rows, id="intents")
    return joined((tag("p", verify_headline(result)), shown))


def _intent(each: IntentAnswer, places: Places) -> Markup:
    status = tag("span", each.status.value, class_=f"badge {each.status.value}")
    what = joined(
        (
            tag("p", each.words),
            tag("p", places.link(each.place), class_="faint"),
            tag("p", each.reason, class_="faint"),
        )
    )
    why = [tag("p", each.explanation)]
    if each.witness is not None:
        why.append(witness(each.witness))
    return tag("tr", cells(status, what, joined(why), places.links(each.responsible, "")))


def policies(given: Sequence[Policy], places: Places) -> Markup:
    """The policies of one set."""
    rows = [
        tag(
            "tr",
            cells(
                places.policy(each),
                each.kind,
                ", ".join(sorted(direction.value for direction in each.isolates)) or "nothing",
                f"{len(each.ingress)} ingress, {len(each.egress)} egress",
            ),
        )
        for each in given
    ]
    heads = ("Policy", "Kind", "Isolates for", "Rules")
    return table("Policies", heads, rows, id="policies") if rows else tag("p", "No policy.")
