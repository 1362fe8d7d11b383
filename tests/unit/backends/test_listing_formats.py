# SPDX-License-Identifier: Apache-2.0
"""Names in a listing mean nothing to CSV, Markdown, DOT, SVG or a spreadsheet."""

import csv
import io
import json
from dataclasses import replace
from xml.etree import ElementTree

from policyc.backends.report.render import formats_of, render
from policyc.ir.results.common import Evidence, UniverseUsed
from policyc.ir.results.listing import (
    EndGroup,
    ListedConnection,
    ListedLine,
    ListResult,
    ServiceRange,
)

NASTY = 'a "b" | c\\ <b>@you</b>,\n=x'
FORMULA = "=1+1"


def listing(name: str) -> ListResult:
    groups = (
        EndGroup(0, "pods", name, (name,), (4,)),
        EndGroup(1, "outside", "10.0.0.0/8", ("10.0.0.0/8",), (4,)),
    )
    ranges = (
        ServiceRange("TCP", 80, 90, (1, 1023)),
        ServiceRange("ICMP", 0x0800, 0x0800),
        ServiceRange("OTHER", 47, 47),
    )
    connection = ListedConnection(0, 1, (4,), "TCP 80-90", ranges)
    line = ListedLine(name, "10.0.0.0/8", "TCP 80-90", (4,), 1)
    universe = UniverseUsed("cluster", "two ends")
    return ListResult(universe, Evidence("a test"), groups, (connection,), (line,), 2, 1, 1)


def test_a_listing_has_six_formats() -> None:
    assert formats_of(ListResult) == ["text", "json", "csv", "dot", "markdown", "svg"]


def test_csv_quotes_and_disarms() -> None:
    rows = list(csv.DictReader(io.StringIO(render(listing(NASTY), "csv"))))
    assert [row["source"] for row in rows] == [NASTY.replace("\n", "\\n")] * 3
    assert [(row["protocol"], row["ports"], row["source_ports"]) for row in rows] == [
        ("TCP", "80-90", "1-1023"),
        ("ICMP", "8/0", ""),
        ("OTHER", "47", ""),
    ]
    rows = list(csv.DictReader(io.StringIO(render(listing(FORMULA), "csv"))))
    assert rows[0]["source"] == f"'{FORMULA}"


def test_markdown_has_one_row_of_three_cells() -> None:
    document = render(listing(NASTY), "markdown")
    (row,) = [line for line in document.splitlines() if "10.0.0.0/8" in line]
    assert row.count("|") == 4
    assert "<b>" not in row
    assert "@you" not in row


def test_markdown_stays_below_the_limit_of_a_comment() -> None:
    one = listing("x" * 200)
    many = ListResult(
        one.universe, one.evidence, one.groups, one.connections, one.lines * 1000, 2, 1, 1
    )
    document = render(many, "markdown")
    assert len(document) <= 60_000
    assert "more lines not shown" in document


def test_text_has_no_line_end_of_a_name() -> None:
    (line,) = [t for t in render(listing(NASTY), "text").splitlines() if "->" in t]
    assert "\\n=x" in line


def test_dot_keeps_names_inside_their_quotes() -> None:
    document = render(listing(NASTY), "dot")
    assert '\\"b\\" | c\\\\ <b>@you</b>,\\\\n=x' in document
    assert document.count("->") == 1


def test_svg_shows_names_as_they_are() -> None:
    picture = ElementTree.fromstring(render(listing('a "b" <b>&amp;'), "svg"))
    texts = [node.text for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text is not None and text.replace("\xa0", " ") == 'a "b" <b>&amp;' for text in texts)


def test_json_gives_ranges_by_protocol() -> None:
    value = json.loads(render(listing(NASTY), "json"))
    assert value["connections"][0]["ranges"] == [
        {"protocol": "TCP", "ports": [80, 90], "source_ports": [1, 1023]},
        {"protocol": "ICMP", "icmp": [[8, 0], [8, 0]]},
        {"protocol": "OTHER", "numbers": [47, 47]},
    ]
    assert value["groups"][0]["name"] == NASTY


def test_readable_formats_count_omitted_exposures() -> None:
    result = replace(listing("web"), exposures=(), omitted_exposures=7)
    for form in ("text", "markdown"):
        assert "exposure of 7 more groups is not shown" in render(result, form)
