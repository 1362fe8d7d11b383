# SPDX-License-Identifier: Apache-2.0
"""The page: a template with its styles, scripts and sections, and a policy that allows only these."""

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template

from policyc.backends.report.html.answers import findings, intents, policies, reading
from policyc.backends.report.html.changes import objects, regions
from policyc.backends.report.html.connections import connections
from policyc.backends.report.html.island import island
from policyc.backends.report.html.markup import Markup, joined, tag, text
from policyc.backends.report.html.places import Places
from policyc.backends.report.html.undecided import undecided
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.verdicts import where
from policyc.backends.report.words import (
    check_headline,
    diff_headline,
    evidence_words,
    opaque_notes,
    verify_headline,
)
from policyc.ir.results.common import Evidence, UniverseUsed
from policyc.ir.results.diff import DiffOutcome
from policyc.ir.results.failure import Failure
from policyc.ir.results.report import Report
from policyc.ir.results.verify import IntentStatus

SCRIPTS = ("vendor/cytoscape.min.js", "data.js", "matrix.js", "graph.js", "page.js")
"""The scripts in the order in which they run."""
_VISUAL = "This view needs JavaScript. The table of regions below has the same content."


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    title: str
    content: Markup
    is_drawn: bool = False


def report_html(report: Report, _options: ReportOptions) -> str:
    """One file that needs nothing else, with all answers of a report."""
    sections = _sections(report)
    shown = joined(_section(each) for each in sections)
    links = (tag("li", tag("a", each.title, href=f"#{each.name}")) for each in sections)
    title = f"{report.before} → {report.after}" if report.diff is not None else report.after
    main = joined((_alerts(report), tag("nav", tag("ul", *links), aria_label="Sections"), shown))
    return _page(f"Network policies: {title}", _headline(report), main, island(report))


def failure_html(failure: Failure, _options: ReportOptions) -> str:
    """A page that says that there is no answer, and why."""
    said = [tag("li", f"{where(f.span)}: {f.code} {f.message}") for f in failure.findings]
    why = tag("ul", *said) if said else tag("p", failure.message)
    main = tag("section", tag("h2", "No answer"), why, tag("p", failure.hint), class_="alert")
    headline = tag("p", "policyc stopped: nothing was compared or checked", class_="headline bad")
    return _page("Network policies: no answer", headline, main, "{}", scripts=())


def _sections(report: Report) -> list[_Section]:
    """The sections in reading order; the excerpts come last, as all others link to them."""
    places = Places(report.excerpts)
    found = list(_about_traffic(report, places))
    if report.diff is None:
        found.append(_Section("policies", "Policies", policies(report.policies, places)))
    if report.intents is not None:
        found.append(_Section("intents", "Intents", intents(report.intents, places)))
    said = joined((findings(report.check, places), reading(report.reading)))
    found.append(_Section("findings", "Findings", said))
    notes = _notes(report)
    if notes:
        found.append(_Section("notes", "Notes", tag("ul", *(tag("li", each) for each in notes))))
    found.append(_Section("rules", "Rules", places.section()))
    return found


def _about_traffic(report: Report, places: Places) -> list[_Section]:
    drawn = [
        _Section("matrix", "Matrix", _drawing("matrix"), is_drawn=True),
        _Section("graph", "Graph", _drawing("graph"), is_drawn=True),
    ]
    if report.diff is not None:
        changed = objects(report.diff.objects, places)
        table = regions(report.diff, places)
        has_regions = report.diff.differences or report.diff.possible
        return [
            _Section("objects", "Changed policies", changed),
            *(drawn if has_regions else ()),
            _Section("flows", "Regions", table),
        ]
    if report.listing is not None:
        table = connections(report.listing, places)
        return [*drawn, _Section("flows", "Connections", table)]
    return []


def _drawing(name: str) -> Markup:
    return joined((tag("noscript", tag("p", _VISUAL)), tag("div", id=f"{name}-view")))


def _section(section: _Section) -> Markup:
    head = tag("h2", section.title, id=f"{section.name}-title")
    labels = f"{section.name}-title"
    return tag("section", head, section.content, id=section.name, aria_labelledby=labels)


def _headline(report: Report) -> Markup:
    said = []
    if report.diff is not None:
        tone = "good" if report.diff.outcome is DiffOutcome.EQUAL else "bad"
        said.append(tag("p", diff_headline(report.diff), class_=f"headline {tone}"))
        said.append(_proof(report.diff.universe, report.diff.evidence))
    elif report.listing is not None:
        said.append(tag("p", f"{report.listing.n_groups} groups of ends", class_="headline"))
        said.append(_proof(report.listing.universe, report.listing.evidence))
    else:
        said.append(tag("p", check_headline(report.check), class_="headline"))
        said.append(_proof(report.check.universe, report.check.evidence))
    if report.intents is not None:
        holds = all(each.status is IntentStatus.HOLDS for each in report.intents.intents)
        tone = "good" if holds else "bad"
        said.append(tag("p", verify_headline(report.intents), class_=f"headline {tone}"))
    return joined(said)


def _proof(universe: UniverseUsed, evidence: Evidence) -> Markup:
    return tag(
        "dl",
        tag("div", tag("dt", "Universe"), tag("dd", universe.words)),
        tag("div", tag("dt", "Proof"), tag("dd", evidence_words(evidence), id="proof")),
        class_="facts",
    )


def _alerts(report: Report) -> Markup:
    found = undecided(report)
    if not found:
        return Markup()
    items = (tag("li", each) for each in found)
    head = tag("h2", "Not decided, or not shown", id="undecided-title")
    body = tag("ul", *items)
    return tag("section", head, body, class_="alert", aria_labelledby="undecided-title")


def _notes(report: Report) -> list[str]:
    found = [*report.check.notes, *opaque_notes(report.check.opaque)]
    for result in (report.diff, report.listing, report.intents):
        if result is not None:
            found += result.notes
    return list(dict.fromkeys(found))


def _page(
    title: str, headline: Markup, main: Markup, data: str, scripts: tuple[str, ...] = SCRIPTS
) -> str:
    style = asset("page.css")
    codes = [asset(name) for name in scripts]
    return Template(asset("page.html")).substitute(
        policy=_policy(style, codes),
        title=text(title),
        style=style,
        headline=headline,
        main=main,
        data=data,
        scripts="\n".join(f"<script>{code}</script>" for code in codes),
    )


@cache
def asset(name: str) -> str:
    """A file of this package: it is trusted, and put into the page as it is."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def _policy(style: str, codes: list[str]) -> str:
    """The Content-Security-Policy: no network, and only the page's own script and style."""
    hashes = " ".join(map(_hash, codes)) or "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(code: str) -> str:
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
