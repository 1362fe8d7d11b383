# SPDX-License-Identifier: Apache-2.0
"""The page: its data, what it says of open questions, and that hostile names stay text."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from policyc.backends.report.html import page
from policyc.backends.report.html.ends import REST, ends_of
from policyc.backends.report.html.markup import Markup, tag
from policyc.backends.report.html.places import Places
from policyc.backends.report.render import render
from policyc.ir.diagnostics import Diagnostic, Severity
from policyc.ir.intervals import IntervalSet
from policyc.ir.printable import without_commands
from policyc.ir.results.common import OpaquePart, Place, UniverseUsed
from policyc.ir.results.diff import DiffOutcome, DiffResult
from policyc.ir.results.failure import Failure, FailureKind
from policyc.ir.results.regions import EndGroups, RegionParts, ServicePart
from policyc.ir.results.report import Excerpt, Report
from tests.unit.backends import samples

HOSTILE = "</script><img src=x onerror=alert(1)>\"' &lt; {{x}} \u202e\n::error::"
VENDOR = Path(page.__file__).parent / "vendor"
ROOT = Path(__file__).parents[3]
CLUSTER = UniverseUsed("cluster", "three pods")


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of the data."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self.text = ""
        self._inside: list[str] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = [tag, dict(attrs).get("type") or ""]

    def handle_data(self, data: str) -> None:
        if self._inside == ["script", "application/json"]:
            self.data += data
        elif self._inside and self._inside[0] not in ("script", "style"):
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ["", ""]


def report(diff: DiffResult | None, **others: Any) -> Report:
    return replace(Report("old", "new", samples.CLEAN, diff), **others)


def drawn(document: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Elements(document).data)
    return found


def test_hostile_names_make_no_element_and_no_script() -> None:
    span = samples.difference().before[0].span
    hostile = report(
        samples.diff(HOSTILE),
        before=HOSTILE,
        check=samples.check(HOSTILE),
        intents=samples.verify(HOSTILE),
        reading=(Diagnostic("PC0001", Severity.WARNING, HOSTILE, span, hint=HOSTILE),),
        excerpts={span: Excerpt(1, (HOSTILE, "::error::"), (1, 1))},
    )
    plain = report(
        samples.diff("name"),
        check=samples.check("name"),
        intents=samples.verify("name"),
        reading=(Diagnostic("PC0001", Severity.WARNING, "name", span),),
        excerpts={span: Excerpt(1, ("name", "name"), (1, 1))},
    )
    found, expected = (Elements(render(each, "html")) for each in (hostile, plain))
    assert [name for name, _ in found.found] == [name for name, _ in expected.found]
    assert not [name for _, had in found.found for name in had if name.startswith("on")]
    assert "<img src=x" in found.text
    assert "\u202e" not in found.text


def test_the_policy_of_the_page_allows_only_its_own_script_and_style() -> None:
    document = render(report(samples.diff()), "html")
    policy = next(had["content"] for name, had in Elements(document).found if "http-equiv" in had)
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for code in re.findall(
        r"<(?:script|style)(?: id=\"\w+\")?>(.*?)</(?:script|style)>", document, re.S
    ):
        digest = hashlib.sha256(code.encode()).digest()
        assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy


def test_the_page_names_no_other_resource() -> None:
    for _, had in Elements(render(report(samples.diff()), "html")).found:
        assert "src" not in had
        assert (had.get("href") or "#").startswith("#")


def test_the_page_has_no_line_that_a_log_obeys() -> None:
    document = render(report(samples.diff(HOSTILE)), "html")
    assert without_commands(document) == document
    assert "##[" not in document


@pytest.mark.parametrize(
    ("result", "unlisted"),
    [
        (samples.GAVE_UP, "not decided"),
        (samples.diff(omitted=3), "no region shown"),
        (samples.diff(), "no region of its own"),
        (replace(samples.EQUAL, universe=CLUSTER), "same"),
        (replace(samples.diff(), outcome=DiffOutcome.BOTH, undecided="z3: timeout"), "not decided"),
    ],
)
def test_an_empty_cell_means_same_only_if_all_is_decided_and_shown(
    result: DiffResult, unlisted: str
) -> None:
    assert drawn(render(report(result), "html"))["unlisted"] == unlisted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (report(samples.GAVE_UP), "timeout after 60 s"),
        (report(samples.diff(omitted=3)), "not shown: 3 regions opened"),
        (report(samples.EQUAL, check=samples.check()), "whether is shadowed"),
        (report(samples.EQUAL, intents=samples.verify()), "is not decided"),
    ],
)
def test_open_questions_come_first(given: Report, words: str) -> None:
    document = render(given, "html")
    alert = document[document.index('class="alert"') : document.index("<nav")]
    assert words in alert


def test_possible_differences_and_their_rules_are_open_questions() -> None:
    rule = samples.difference().after[0]
    part = OpaquePart(Place(rule.span, rule.path, "shop/open"), ("domain names",), "NEW")
    possible = replace(
        samples.GAVE_UP, possible=(samples.difference(),), opaque=(part,), undecided=""
    )
    document = render(report(possible), "html")
    assert "domain names" in document[document.index('class="alert"') : document.index("<nav")]
    assert "? may be opened" in document
    assert drawn(document)["regions"][0]["certain"] is False


def test_a_page_without_open_questions_has_no_alert() -> None:
    assert 'class="alert"' not in render(report(samples.EQUAL), "html")


def test_a_failure_is_a_page() -> None:
    found = Diagnostic("PC0001", Severity.ERROR, HOSTILE, samples.span(3))
    document = render(Failure(FailureKind.INPUT, "wrong", 2, findings=(found,)), "html")
    text = Elements(document).text
    assert "nothing was compared" in text
    assert "PC0001" in text


def over_cluster(*regions: tuple[EndGroups, EndGroups], groups: int = 3) -> DiffResult:
    services = (ServicePart(IntervalSet.of([(0, 9)])),)
    found = tuple(
        replace(samples.difference(f"region {at}"), parts=RegionParts(src, dst, services))
        for at, (src, dst) in enumerate(regions)
    )
    names = tuple((f"shop/pod-{number}",) for number in range(groups))
    return replace(samples.diff(), differences=found, universe=CLUSTER, groups=names)


def test_groups_that_are_in_the_same_regions_are_one_end() -> None:
    ends = ends_of(over_cluster((EndGroups((0, 1), ()), EndGroups((2,), ()))))
    assert [each.members for each in ends.all if each.kind != REST] == [
        ("shop/pod-2",),
        ("shop/pod-0", "shop/pod-1"),
    ]
    assert ends.of_region == (((1,), (0,)),)
    assert ends.is_partition


def test_networks_inside_others_are_ends_of_their_own() -> None:
    wide, narrow = EndGroups((), ("10.0.0.0/8",)), EndGroups((), ("10.1.0.0/16", "2001:db8::/32"))
    ends = ends_of(over_cluster((wide, EndGroups((0,), ())), (narrow, EndGroups((0,), ()))))
    by_members = {each.members: at for at, each in enumerate(ends.all)}
    inside = by_members["10.1.0.0/16",]
    (first, _), (second, _) = ends.of_region
    assert inside in first
    assert set(second) == {inside, by_members["2001:db8::/32",]}
    around = next(each for each in ends.all if "10.0.0.0/16" in each.members)
    assert "10.1.0.0/16" not in around.members


def test_ends_of_no_region_are_one_end() -> None:
    ends = ends_of(over_cluster((EndGroups((0,), ()), EndGroups((0,), ()))))
    (rest,) = (each for each in ends.all if each.kind == REST)
    assert rest.members == ("shop/pod-1", "shop/pod-2")


def test_ends_in_words_may_overlap() -> None:
    ends = ends_of(samples.diff(count=2))
    assert not ends.is_partition
    assert len(ends.all) == 3


def test_attributes_and_children_are_escaped() -> None:
    assert tag("p", "<", Markup("<b>"), title='"') == '<p title="&quot;">&lt;<b></p>'


def test_each_place_is_quoted_once() -> None:
    place = samples.difference().before[0]
    places = Places({place.span: Excerpt(2, ("a: <b>",), (2, 2))})
    assert places.link(place) == places.link(place)
    section = places.section()
    assert section.count("<figure") == 1
    assert "a: &lt;b&gt;" in section


@pytest.mark.parametrize("folder", [VENDOR, ROOT / "tests" / "browser" / "vendor"])
def test_vendored_files_are_those_of_their_release(folder: Path) -> None:
    (about,) = (json.loads(path.read_text()) for path in folder.glob("*.json"))
    data = (folder / about["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == about["sha256"]
    assert about["version"].encode() in data
    assert (folder / about["licence_file"]).read_text().strip()
